// Preloaded into forecost: a file system, or a kill, that misbehaves at a chosen moment.
//   FORECOST_FAULT_FLOCK=ERRNO   flock() always fails with this number
//   FORECOST_FAULT_KILL=N        SIGKILL at the N-th call (from 1) that changes something under
//   FORECOST_FAULT_FOLDER        this folder: before it, or, of a write, when half of it is done
// So a test meets every state that a kill can leave, once each, and not by chance.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) (__extension__(__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static long number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : 0;
}

static int in_folder(const char* path) {
  const char* folder = getenv("FORECOST_FAULT_FOLDER");
  return folder != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int descriptor_in_folder(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return in_folder(path);
}

static int is_the_last(int concerned) {
  static atomic_long calls;
  return concerned && atomic_fetch_add(&calls, 1) + 1 == number("FORECOST_FAULT_KILL");
}

int flock(int fd, int operation) {
  const long error = number("FORECOST_FAULT_FLOCK");
  if (error == 0) return REAL(flock)(fd, operation);
  errno = (int)error;
  return -1;
}

static int open_or_die(const char* path, int flags, mode_t mode) {
  const int changes = (flags & (O_CREAT | O_TRUNC)) != 0;
  if (is_the_last(changes && in_folder(path))) raise(SIGKILL);
  return REAL(open)(path, flags, mode);
}

static mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? (mode_t)va_arg(arguments, int) : 0;
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_die(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_die(path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  if (!is_the_last(descriptor_in_folder(fd))) return REAL(write)(fd, bytes, count);
  REAL(write)(fd, bytes, count / 2);
  raise(SIGKILL);
  return -1;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (!is_the_last(descriptor_in_folder(fd))) return REAL(writev)(fd, parts, count);
  if (count > 0) REAL(write)(fd, parts[0].iov_base, parts[0].iov_len / 2);
  raise(SIGKILL);
  return -1;
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (is_the_last(descriptor_in_folder(fd))) raise(SIGKILL);
  return REAL(pwrite)(fd, bytes, count, offset);
}

int ftruncate(int fd, off_t length) {
  if (is_the_last(descriptor_in_folder(fd))) raise(SIGKILL);
  return REAL(ftruncate)(fd, length);
}

int fsync(int fd) {
  if (is_the_last(descriptor_in_folder(fd))) raise(SIGKILL);
  return REAL(fsync)(fd);
}

int rename(const char* from, const char* to) {
  if (is_the_last(in_folder(to))) raise(SIGKILL);
  return REAL(rename)(from, to);
}

int unlink(const char* path) {
  if (is_the_last(in_folder(path))) raise(SIGKILL);
  return REAL(unlink)(path);
}

int mkdir(const char* path, mode_t mode) {
  if (is_the_last(in_folder(path))) raise(SIGKILL);
  return REAL(mkdir)(path, mode);
}
