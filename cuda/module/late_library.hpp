#pragma once

#include <dlfcn.h>

#include <string>

#include "cuda/module/context.hpp"

namespace forecost::cuda {

/// A library that is opened when it is first needed, and never closed: handles hold its functions
/// to the end. Throws Failure.
class LateLibrary {
 public:
  explicit LateLibrary(const char* file)
      : file_(file), library_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      throw Failure(Code::failed, std::string(file) + " cannot be opened: " + dlerror());
    }
  }

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw Failure(Code::failed, file_ + " has no " + name);
  }

 private:
  std::string file_;
  void* library_;
};

}  // namespace forecost::cuda
