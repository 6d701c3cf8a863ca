#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collect/backend.hpp"
#include "core/error.hpp"

namespace forecost {
namespace {

using testing::HasSubstr;

template <class Thrown>
std::string refusal(std::string_view backend) {
  try {
    open_backend(backend, {});
  } catch (const Thrown& error) {
    return error.what();
  }
  ADD_FAILURE() << backend << ": not refused in the way expected";
  return {};
}

TEST(Registry, AnUnknownBackendListsThoseBuilt) {
  const std::string message = refusal<UsageError>("abacus");
  for (const BackendInfo& backend : backends()) {
    EXPECT_THAT(message, HasSubstr(std::string(backend.name)));
  }
}

TEST(Registry, ABackendThatThisBuildLacksIsTheEnvironmentsFault) {
  EXPECT_THAT(refusal<EnvironmentError>("cuda"), HasSubstr("no CUDA module"));
#ifndef FORECOST_HAVE_ONEDNN
  EXPECT_THAT(refusal<EnvironmentError>("cpu"), HasSubstr("without oneDNN"));
  EXPECT_THAT(refusal<EnvironmentError>("auto"), HasSubstr("without oneDNN"));
#endif
}

}  // namespace
}  // namespace forecost
