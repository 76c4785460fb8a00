// Suppresses leaks of Gloo's device, which never frees its lists of interfaces
// and addresses: one leak for each device, in the distribution's library.

extern "C" __attribute__((visibility("default"))) const char*
__lsan_default_suppressions() {
  return "leak:gloo::transport::tcp\n";
}
