// A library with the name of the CUDA driver, linked in its place; the shim finds the driver when
// it is loaded.
