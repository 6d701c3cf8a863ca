#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mpi/world.hpp"

namespace forecost {

/// Two-sided messages between the ranks of a world; nothing here blocks. Messages from one rank to
/// another arrive whole and in the order they were sent. Opened and closed by all ranks together;
/// whatever is sent must be received before the receiver closes.
class Mailbox {
 public:
  struct Message {
    int from;
    std::string text;  ///< any bytes
  };

  explicit Mailbox(const World& world);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Copies the text and returns at once.
  void send(int to, std::string_view text);
  /// What has arrived, if anything has.
  std::optional<Message> receive();

 private:
  struct Transport;
  std::unique_ptr<Transport> transport_;  ///< null in a world of one rank
};

}  // namespace forecost
