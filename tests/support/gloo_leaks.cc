// Gloo's device never frees the lists of interfaces and addresses it asked for:
// once for each device, in the distribution's library, not in ours.

extern "C" __attribute__((visibility("default"))) const char*
__lsan_default_suppressions() {
  return "leak:gloo::transport::tcp\n";
}
