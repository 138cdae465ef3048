// A library with 64 bytes of thread-local memory at a fixed place.
extern "C" {
[[gnu::tls_model("initial-exec")]] thread_local char eaten[64];
char* eaten_here() { return eaten; }
}
