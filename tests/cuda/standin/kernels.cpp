#include "tests/cuda/standin/kernels.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "tests/cuda/standin/memory.hpp"
#include "tests/cuda/standin/state.hpp"
#ifdef FORECOST_HAVE_EMULATION
#include "tests/cuda/emulation/emulation.hpp"
#endif

namespace forecost::standin {
namespace {

std::map<const void*, std::string>& registered() {
  static auto* all = new std::map<const void*, std::string>;
  return *all;
}

/// So much is copied of a structure by value whose size the emulation does not know.
constexpr std::size_t most_structure_bytes = 512;

struct Parameter {
  bool pointer = false, to_const = false;
  std::size_t bytes = 0;  ///< 0: a structure
};

Parameter parameter_of(std::string type) {
  const auto ends_with = [](const std::string& text, const char* end) {
    const std::size_t length = std::strlen(end);
    return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
  };
  while (!type.empty() && type.front() == ' ') type.erase(0, 1);
  static const std::map<std::string, std::size_t> scalars{
      {"bool", 1},           {"char", 1},
      {"signed char", 1},    {"unsigned char", 1},
      {"short", 2},          {"float", 4},
      {"unsigned short", 2}, {"int", 4},
      {"unsigned int", 4},   {"long", 8},
      {"unsigned long", 8},  {"long long", 8},
      {"double", 8},         {"unsigned long long", 8}};
  if (ends_with(type, "*")) return {true, ends_with(type, "const*"), sizeof(void*)};
  const auto found = scalars.find(type);
  return {false, false, found == scalars.end() ? 0 : found->second};
}

/// Of a demangled function name.
std::vector<Parameter> parameters_of(const std::string& function) {
  std::vector<Parameter> parameters;
  const std::size_t end = function.rfind(')');
  if (end == std::string::npos) return parameters;
  std::size_t begin = end;
  for (int depth = 1; begin > 0 && depth > 0;) {
    --begin;
    depth += function[begin] == ')' ? 1 : function[begin] == '(' ? -1 : 0;
  }
  std::string type;
  int depth = 0;
  for (std::size_t i = begin + 1; i <= end; ++i) {
    const char c = function[i];
    if (depth == 0 && (c == ',' || i == end)) {
      if (!type.empty() && type != "void") parameters.push_back(parameter_of(type));
      type.clear();
      continue;
    }
    depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
    type += c;
  }
  return parameters;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

/// Reads beyond the end of what is on the caller's stack where a structure is small.
[[gnu::no_sanitize("address")]] std::string copy_of(const void* memory, std::size_t bytes) {
  std::string copy(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) copy[i] = static_cast<const volatile char*>(memory)[i];
  return copy;
}

/// What the types of a kernel's parameters do not tell.
void describe_special(Work& work, const std::vector<std::int64_t>& integers) {
  const auto is = [&](const char* name) { return work.name.find(name) != std::string::npos; };
  // spin_kernel(nanoseconds)
  if (is("spin_kernel") && integers.size() == 1)
    work.seconds = 1e-9 * static_cast<double>(integers[0]);
  // sum_kernel(data, count, sums): beyond the limits the sums are zero, and not another tensor's.
  if (is("sum_kernel") && !work.operands.empty()) work.operands.back().access = Access::write;
  // read_kernel(data, count of 16 bytes, repeats, sink)
  if (is("read_kernel") && integers.size() == 2)
    work.bytes = 16.0 * static_cast<double>(integers[0]) * static_cast<double>(integers[1]);
}

std::vector<std::size_t> sizes_of([[maybe_unused]] const std::string& name) {
#ifdef FORECOST_HAVE_EMULATION
  return emulation::parameter_bytes(name.c_str());
#else
  return {};
#endif
}

void clear_padding([[maybe_unused]] const std::string& name,
                   [[maybe_unused]] std::vector<std::string>& values) {
#ifdef FORECOST_HAVE_EMULATION
  std::vector<void*> arguments;
  for (std::string& value : values) arguments.push_back(value.data());
  emulation::clear_padding(name.c_str(), arguments.data());
#endif
}

void run_kernel(const std::string& name, dim3 grid, dim3 block, std::size_t shared_bytes,
                const std::vector<std::string>& values) {
  std::vector<void*> arguments;
  for (const std::string& value : values) arguments.push_back(const_cast<char*>(value.data()));
#ifdef FORECOST_HAVE_EMULATION
  try {
    if (emulation::emulate(name.c_str(), grid, block, shared_bytes, arguments.data())) return;
  } catch (const std::logic_error& error) {
    violation("kernel", name + ": " + error.what());
    return;
  }
  static auto* told = new std::set<std::string>;
  if (told->insert(name).second) violation("kernel", name + " has no emulation");
#else
  (void)grid, (void)block, (void)shared_bytes, (void)name;
#endif
}

}  // namespace

void register_kernel(const void* host_function, const char* device_name) {
  registered()[host_function] = device_name;
}

void forget_kernels() { registered().clear(); }

const char* kernel_name(const void* host_function) {
  const auto found = registered().find(host_function);
  return found == registered().end() ? nullptr : found->second.c_str();
}

Work kernel_work(const std::string& device_name, dim3 grid, dim3 block, std::size_t shared_bytes,
                 void** arguments) {
  Work work;
  const std::string function = demangled(device_name);
  work.name = function.substr(0, function.find('('));
  const std::vector<Parameter> parameters = parameters_of(function);
  const std::vector<std::size_t> sizes = sizes_of(device_name);
  std::vector<std::string> values;
  std::vector<std::int64_t> integers;
  work.memorable = true;
  // What a pointer reaches, from there to the end of its allocation.
  const auto add_operand = [&](void* pointer, const Allocation* place, Access access) {
    const std::size_t room =
        place == nullptr ? 1 : place->bytes - (static_cast<std::byte*>(pointer) - place->memory);
    // Which of them overlap is a part of what is asked.
    std::size_t first = 0;
    while (first < work.operands.size() && allocation_of(work.operands[first].memory) != place)
      ++first;
    work.parameters += std::to_string(first) + ":" + std::to_string(room) + ",";
    work.operands.push_back({pointer, room, access, "an argument"});
  };
  // Copies, in which nothing is left of what lay where no member lies: it may look like a pointer.
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t known = i < sizes.size() ? sizes[i] : 0;
    values.push_back(copy_of(arguments[i], known > 0                 ? known
                                           : parameters[i].bytes > 0 ? parameters[i].bytes
                                                                     : most_structure_bytes));
  }
  if (sizes.size() == parameters.size()) clear_padding(device_name, values);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (parameter.bytes == 0) {
      if (i >= sizes.size()) {
        work.memorable = false;
        continue;
      }
      // Its pointers are those of its words that lie in an allocation.
      std::string rest = values[i];
      for (std::size_t at = 0; at + sizeof(void*) <= rest.size(); at += sizeof(void*)) {
        void* word;
        std::memcpy(&word, rest.data() + at, sizeof word);
        const Allocation* place = word == nullptr ? nullptr : allocation_of(word);
        if (place == nullptr) continue;
        add_operand(word, place, Access::update);
        std::memset(rest.data() + at, 0xff, sizeof word);
      }
      work.parameters += rest;
      continue;
    }
    if (!parameter.pointer) {
      work.parameters += values[i];
      if (parameter.bytes == 8) {
        integers.emplace_back();
        std::memcpy(&integers.back(), values[i].data(), 8);
      }
      continue;
    }
    void* pointer;
    std::memcpy(&pointer, values[i].data(), sizeof pointer);
    if (pointer == nullptr) {
      work.parameters += "null";
      continue;
    }
    const Allocation* place = allocation_of(pointer);
    // One that is in no allocation is an operand nevertheless, so that it is reported.
    add_operand(pointer, place, parameter.to_const ? Access::read : Access::update);
  }
  const unsigned shape[] = {
      grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared_bytes)};
  work.parameters.append(reinterpret_cast<const char*>(shape), sizeof shape);
  // All that they can reach, once: reading and writing are not told apart.
  work.bytes = 0;
  for (const Operand& operand : work.operands) work.bytes += static_cast<double>(operand.bytes);
  describe_special(work, integers);
  work.compute = [=] { run_kernel(device_name, grid, block, shared_bytes, values); };
  return work;
}

}  // namespace forecost::standin
