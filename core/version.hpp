#pragma once

#include <string_view>

namespace forecost {
inline constexpr std::string_view version = FORECOST_VERSION;
}
