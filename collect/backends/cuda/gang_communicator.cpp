#include "collect/backends/cuda/gang_communicator.hpp"

#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace forecost::cuda {

namespace {

/// Also how long NCCL may need to find all ranks of a large machine.
constexpr double timeout_s = 60;

/// By broadcasts of 8 bytes each: a gang's own way to tell something.
CommunicatorId agreed_id(Gang& gang, OpenDevice& device) {
  CommunicatorId id{};
  // An id of zeros opens nothing, on any member.
  if (gang.rank() == 0) (void)device.table().communicator_id(&id);
  std::array<std::int64_t, sizeof id.bytes / sizeof(std::int64_t)> words{};
  std::memcpy(words.data(), id.bytes, sizeof id.bytes);
  for (std::int64_t& word : words) word = gang.broadcast(word);
  std::memcpy(id.bytes, words.data(), sizeof id.bytes);
  return id;
}

class GangCommunicator {
 public:
  GangCommunicator(Gang& gang, OpenDevice& device) : device_(device) {
    const CommunicatorId id = agreed_id(gang, device);
    const Outcome outcome = device.table().open_communicator(device.context(), &id, gang.rank(),
                                                             gang.size(), timeout_s, &handle_);
    if (outcome.code != Code::ok) why_not_ = fmt::format("NCCL: {}", outcome.message);
  }
  ~GangCommunicator() {
    if (handle_ != nullptr) device_.table().close_communicator(handle_);
  }
  GangCommunicator(const GangCommunicator&) = delete;
  GangCommunicator& operator=(const GangCommunicator&) = delete;

  Communicator* handle() const {
    if (handle_ == nullptr) throw CaseRefused(Status::failed, why_not_);
    return handle_;
  }

 private:
  OpenDevice& device_;
  Communicator* handle_ = nullptr;
  std::string why_not_;
};

}  // namespace

void open_communicator(Gang& gang, OpenDevice& device) {
  gang.kept = std::make_shared<GangCommunicator>(gang, device);
}

Communicator* communicator_of(const Gang& gang) {
  return static_cast<const GangCommunicator*>(gang.kept.get())->handle();
}

}  // namespace forecost::cuda
