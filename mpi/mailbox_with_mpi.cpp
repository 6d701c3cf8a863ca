#include <list>
#include <stdexcept>

#include <mpi.h>

#include "mpi/mailbox.hpp"
#include "mpi/polite_wait.hpp"

namespace forecost {

struct Mailbox::Transport {
  struct Sending {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Forgets messages that are on their way.
  void reap() {
    sending.remove_if([](Sending& message) {
      int done = 0;
      MPI_Test(&message.request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
  }

  MPI_Comm comm = MPI_COMM_NULL;
  std::list<Sending> sending;
};

Mailbox::Mailbox(const World& world) {
  if (world.size() == 1) return;
  transport_ = std::make_unique<Transport>();
  MPI_Comm_dup(MPI_COMM_WORLD, &transport_->comm);
}

Mailbox::~Mailbox() {
  if (!transport_) return;
  PoliteWait politely;
  while (!transport_->sending.empty()) {
    transport_->reap();
    politely.pause();
  }
  MPI_Comm_free(&transport_->comm);
}

void Mailbox::send(int to, std::string_view text) {
  if (!transport_) throw std::logic_error("a message in a world of one rank");
  transport_->reap();
  auto& message = transport_->sending.emplace_back(std::string(text));
  MPI_Isend(message.text.data(), static_cast<int>(message.text.size()), MPI_BYTE, to, 0,
            transport_->comm, &message.request);
}

std::optional<Mailbox::Message> Mailbox::receive() {
  if (!transport_) return std::nullopt;
  transport_->reap();
  int arrived = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  MPI_Improbe(MPI_ANY_SOURCE, 0, transport_->comm, &arrived, &handle, &status);
  if (arrived == 0) return std::nullopt;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  Message message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(bytes), '\0')};
  MPI_Mrecv(message.text.data(), bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
  return message;
}

}  // namespace forecost
