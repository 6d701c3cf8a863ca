#pragma once

#include <string>
#include <vector>

// What broke the rules of the protocol: a line each, kept in the process and written to the report
// file as it happens, so that a crash loses none.

namespace forecost::standin {

/// "KIND: text", at once into the file.
void violation(const std::string& kind, const std::string& text);

/// Of this process up to now, for tests that plant them.
std::vector<std::string> violations();
void forget_violations();

/// What lives and should not at the end of a process; without noting it.
std::vector<std::string> leaks();

}  // namespace forecost::standin
