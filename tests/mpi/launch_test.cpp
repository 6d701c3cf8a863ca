#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "mpi/launch.hpp"

namespace forecost {
namespace {

Launch read(const std::map<std::string, std::string>& variables) {
  return read_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Launch& launch, int size) {
  try {
    check_world_size(launch, size);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, a_plain_process_is_alone_even_inside_an_allocation) {
  EXPECT_FALSE(read({}).has_peers);
  const Launch batch = read({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}});
  EXPECT_FALSE(batch.has_peers);
  EXPECT_FALSE(batch.slurm_tasks);
  EXPECT_EQ(refusal(batch, 1), "");
}

TEST(Launch, mpirun_and_pmix_have_peers) {
  EXPECT_TRUE(read({{"OMPI_COMM_WORLD_SIZE", "3"}}).has_peers);
  EXPECT_EQ(read({{"OMPI_COMM_WORLD_SIZE", "3"}}).announced_ranks, 3);
  EXPECT_TRUE(read({{"PMIX_RANK", "0"}}).has_peers);
}

TEST(Launch, a_step_whose_tasks_do_not_find_each_other_is_refused) {
  const Launch step = read({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "4"}});
  EXPECT_THAT(refusal(step, 1), testing::HasSubstr("SLURM_NTASKS=4"));
  EXPECT_THAT(refusal(step, 1), testing::HasSubstr("1 rank:"));
  EXPECT_THAT(refusal(step, 1), testing::HasSubstr("--mpi=pmix"));
  EXPECT_EQ(refusal(step, 4), "");
}

TEST(Launch, the_step_counts_more_than_the_job) {
  const Launch step =
      read({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_EQ(refusal(step, 2), "");
  EXPECT_NE(refusal(step, 4), "");
}

TEST(Launch, a_step_of_mpirun_daemons_says_nothing_of_the_ranks) {
  const Launch ranks = read({{"SLURM_STEP_ID", "0"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                             {"OMPI_COMM_WORLD_SIZE", "8"}});
  EXPECT_EQ(refusal(ranks, 8), "");
}

}  // namespace
}  // namespace forecost
