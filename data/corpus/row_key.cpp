#include "data/corpus/row_key.hpp"

#include <algorithm>
#include <string>
#include <tuple>

namespace forecost {

namespace {

template <class T>
void append_value(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& bytes, const std::string& text) {
  bytes.append(text).append(1, '\0');
}

std::string task_and_replicate(const Measurement& row) {
  const Task& task = row.task;
  const auto values = task.layer.values();
  std::string bytes;
  bytes.reserve(512);
  bytes.append(task.layer.op().name).append(1, '\0');
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  append_value(bytes, task.pass);
  append_value(bytes, task.dtype);
  append_value(bytes, task.optimizer);
  append_value(bytes, task.cache);
  append_value(bytes, task.policy);
  append_value(bytes, row.replicate);
  append_text(bytes, row.device_class);
  return bytes;
}

}  // namespace

bool key_less(const Measurement& a, const Measurement& b) {
  const auto x = a.task.layer.values(), y = b.task.layer.values();
  const auto [p, q] = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
  if (p != x.end() && q != y.end()) return *p < *q;
  const auto rest = [](const Measurement& row) {
    const Task& t = row.task;
    return std::tuple(t.pass, t.dtype, t.optimizer, t.cache, t.policy,
                      std::string_view(row.device_class), std::string_view(row.device_id),
                      std::string_view(row.environment_id), std::string_view(row.group_id),
                      row.protocol, row.replicate, row.status == Status::ok);
  };
  return rest(a) < rest(b);
}

Hash128 row_key_hash(const Measurement& row) {
  std::string bytes = task_and_replicate(row);
  append_text(bytes, row.device_id);
  append_text(bytes, row.environment_id);
  append_text(bytes, row.group_id);
  append_value(bytes, row.protocol);
  return hash128(bytes);
}

Hash128 task_and_replicate_hash(const Measurement& row) { return hash128(task_and_replicate(row)); }

}  // namespace forecost
