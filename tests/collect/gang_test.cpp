#include "collect/gang.hpp"

#include <gtest/gtest.h>

namespace forecost {
namespace {

DeviceGroup::Member member(const std::string& host, const std::string& device_class,
                           const std::string& uuid) {
  DeviceGroup::Member member{.host = host, .has_device = true, .device = {}, .processors = {}};
  member.device.device_class = device_class;
  member.device.uuid = uuid;
  return member;
}

/// Three hosts: a manager without a device, two cards and a small one on a, one on b, three on c.
DeviceGroup hosts() {
  DeviceGroup group;
  group.members = {{.host = "a", .has_device = false, .device = {}, .processors = {}},
                   member("a", "card", "0"),
                   member("a", "small", "1"),
                   member("a", "card", "2"),
                   member("b", "card", "3"),
                   member("c", "card", "4"),
                   member("c", "card", "5"),
                   member("c", "card", "6")};
  return group;
}

Task allreduce(std::int64_t ranks, std::int64_t nodes) {
  return {
      Layer("allreduce", {{"batch", 1}, {"elements", 100}, {"ranks", ranks}, {"nodes", nodes}})};
}

std::vector<int> members_of(std::int64_t ranks, std::int64_t nodes) {
  return gang_members(hosts(), "card", allreduce(ranks, nodes)).ranks;
}

TEST(Gangs, TakeTheFirstDevicesOfTheirClassEvenlyFromHosts) {
  EXPECT_EQ(members_of(2, 1), (std::vector<int>{1, 3}));
  EXPECT_EQ(members_of(3, 1), (std::vector<int>{5, 6, 7})) << "a has but two";
  EXPECT_EQ(members_of(2, 2), (std::vector<int>{1, 4}));
  EXPECT_EQ(members_of(4, 2), (std::vector<int>{1, 3, 5, 6})) << "b has but one";
  EXPECT_EQ(members_of(3, 3), (std::vector<int>{1, 4, 5}));
}

TEST(Gangs, SayWhyThereIsNone) {
  EXPECT_TRUE(members_of(4, 1).empty());
  EXPECT_EQ(gang_members(hosts(), "card", allreduce(6, 2)).why_not,
            "it takes 3 ranks with such a device on each of 2 nodes; here are 6 on 3 nodes");
  EXPECT_EQ(gang_members(hosts(), "small", allreduce(2, 2)).why_not,
            "it takes 1 rank with such a device on each of 2 nodes; here are 1 on 1 node");
  EXPECT_EQ(gang_members(hosts(), "small", allreduce(2, 1)).why_not,
            "it takes 2 ranks with such a device on one node; here are 1 on 1 node");
  EXPECT_TRUE(gang_members(hosts(), "other", allreduce(2, 1)).ranks.empty());
}

TEST(Gangs, AreRecordedByDevicesAndHosts) {
  const GangRecord one = gang_record(hosts(), {1, 4}), other = gang_record(hosts(), {1, 3});
  EXPECT_EQ(one.facts.at("hosts"), "a b");
  EXPECT_EQ(one.facts.at("nodes"), "2");
  EXPECT_EQ(other.facts.at("nodes"), "1");
  EXPECT_NE(one.id(), other.id());
  EXPECT_EQ(one.id(), gang_record(hosts(), {1, 4}).id());
}

}  // namespace
}  // namespace forecost
