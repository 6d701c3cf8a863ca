#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mpi/agree.hpp"
#include "mpi_main.hpp"

namespace forecost {
namespace {

TEST(Agree, passes_where_all_pass) {
  EXPECT_NO_THROW(agree(test_world(), [] {}));
}

TEST(Agree, one_failure_is_everybodys) {
  const World& world = test_world();
  for (int who = 0; who < world.size(); ++who) {
    try {
      agree(world, [&] {
        if (world.rank() == who) throw EnvironmentError("no device here");
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_THAT(error.what(), testing::EndsWith("no device here"));
      if (who > 0) {
        EXPECT_THAT(error.what(), testing::StartsWith("rank " + std::to_string(who)));
      }
    }
  }
}

TEST(Agree, a_bug_is_internal) {
  try {
    agree(test_world(), [] { throw std::logic_error("bug"); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
  }
}

}  // namespace
}  // namespace forecost
