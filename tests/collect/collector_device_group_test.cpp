#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collect/device_group.hpp"

namespace forecost {
namespace {

DeviceGroup::Member member(const std::string& host, const std::string& uuid,
                           std::vector<int> processors = {}) {
  DeviceGroup::Member one;
  one.host = host;
  one.has_device = !uuid.empty();
  one.device.uuid = uuid;
  one.device.device_class = "class-" + host;
  one.processors = std::move(processors);
  return one;
}

std::string refusal(const DeviceGroup& group) {
  try {
    refuse_shared_devices(group);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceGroup, one_gpu_for_two_ranks_is_refused_with_host_ranks_and_uuid) {
  const std::string why =
      refusal({{member("n1", "GPU-a"), member("n1", "GPU-b"), member("n1", "GPU-a")}});
  for (const char* part : {"ranks 0 and 2", "n1", "GPU-a"}) {
    EXPECT_THAT(why, testing::HasSubstr(part));
  }
  EXPECT_EQ(refusal({{member("n1", "GPU-a"), member("n2", "GPU-a")}}), "");
}

TEST(DeviceGroup, overlapping_processors_are_refused_on_one_host_only) {
  const std::string why =
      refusal({{member("n1", "cpu-a", {0, 1, 2}), member("n1", "cpu-b", {2, 3})}});
  EXPECT_THAT(why, testing::HasSubstr("processors 2 "));
  EXPECT_THAT(why, testing::HasSubstr("ranks 0 and 1 on n1"));
  EXPECT_EQ(refusal({{member("n1", "cpu-a", {0, 1}), member("n1", "cpu-b", {2, 3})}}), "");
  EXPECT_EQ(refusal({{member("n1", "cpu-a", {0, 1}), member("n2", "cpu-b", {0, 1})}}), "");
}

TEST(DeviceGroup, counts_devices_classes_and_neighbours) {
  const DeviceGroup group{
      {member("n1", "a"), member("n1", "b"), member("n2", "c"), member("n1", "")}};
  EXPECT_EQ(group.devices(), 3);
  EXPECT_EQ(group.classes().size(), 2U);
  EXPECT_EQ(group.neighbours(0), 1);
  EXPECT_EQ(group.neighbours(2), 0);
}

}  // namespace
}  // namespace forecost
