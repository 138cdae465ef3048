// A library of the name of the CUDA driver, to be linked in its place: the shim finds the driver
// when it is loaded.
