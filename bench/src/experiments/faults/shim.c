/* A library between a program and the C library that lets the n-th call of one kind fail.
 *
 * It is preloaded. Its environment says what fails, and when:
 *
 *   FAULT_CALL     the kind of call: one of the names in `names`
 *   FAULT_FIRST    which one fails, counted from 1 since `fault_arm`; 0 for none
 *   FAULT_COUNT    how many fail from there on; -1 for all
 *   FAULT_ERROR    what they fail with; 0: half of a read or write is done
 *   FAULT_FILE     files whose path contains this are concerned
 *   FAULT_CODE     calls that do not name a file are concerned where the library with this in its path makes them;
 *                  empty: whoever makes them
 *   FAULT_NO_RING  set: io_uring is refused
 *   FAULT_CONTROL  a file of three 64-bit numbers: whether the count has begun, calls seen, calls failed
 *
 * The numbers are in shared memory, so that they outlive a program that is killed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { READ, WRITE, DURABLE, SYNC, LENGTH, OPEN, UNLINK, RENAME, STAT, LOCK, MAP, MEMORY, THREAD, RING, ENTER, NONE };
static const char *const names[] = {"read", "write", "durable", "sync", "length", "open", "unlink", "rename",
                                    "stat", "lock",  "map",     "memory", "thread", "ring", "enter"};

/* Numbers of system calls that have no function in the C library. */
enum { RING_SETUP = 425, RING_ENTER = 426 };
enum { RESULT_HALF = -2, DESCRIPTORS = 4096 };

static enum call failing = NONE;
static int64_t first, count, error_number;
static const char *file = "", *code = "";
static int no_ring;
static int64_t own_numbers[3], *numbers = own_numbers;
static uintptr_t code_start, code_end;
/* Which descriptors are of files that are concerned. */
static unsigned char concerned[DESCRIPTORS];

#define REAL(result, name, ...)                          \
    static result (*real)(__VA_ARGS__);                  \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)
#define CALLER ((uintptr_t)__builtin_return_address(0))

static int find_code(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    if (!strstr(info->dlpi_name, code)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        code_start = info->dlpi_addr + part->p_vaddr;
        code_end = code_start + part->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULT_CALL"), *text;
    for (int i = 0; name && i < NONE; i++)
        if (!strcmp(names[i], name)) failing = (enum call)i;
    if ((text = getenv("FAULT_FIRST"))) first = atoll(text);
    if ((text = getenv("FAULT_COUNT"))) count = atoll(text);
    if ((text = getenv("FAULT_ERROR"))) error_number = atoll(text);
    if ((text = getenv("FAULT_FILE"))) file = text;
    if ((text = getenv("FAULT_CODE"))) code = text;
    no_ring = getenv("FAULT_NO_RING") != NULL;
    if (*code) dl_iterate_phdr(find_code, NULL);
    if ((text = getenv("FAULT_CONTROL"))) {
        int descriptor = (int)syscall(SYS_openat, AT_FDCWD, text, O_RDWR | O_CLOEXEC, 0);
        void *memory = MAP_FAILED;
        if (descriptor >= 0)
            memory = (void *)syscall(SYS_mmap, NULL, sizeof own_numbers, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (memory != MAP_FAILED) numbers = memory;
        syscall(SYS_close, descriptor);
    }
}

/* The program calls this where the count begins. */
void fault_arm(void) {
    __atomic_store_n(&numbers[0], 1, __ATOMIC_SEQ_CST);
}

/* Whether this call fails; every call of its kind that is concerned asks once. */
static int fails(enum call call) {
    if (call != failing || !__atomic_load_n(&numbers[0], __ATOMIC_RELAXED)) return 0;
    int64_t number = __atomic_add_fetch(&numbers[1], 1, __ATOMIC_SEQ_CST);
    if (first <= 0 || number < first || (count >= 0 && number >= first + count)) return 0;
    __atomic_add_fetch(&numbers[2], 1, __ATOMIC_SEQ_CST);
    errno = (int)error_number;
    return 1;
}

static int by_code(uintptr_t caller) {
    return !*code || (caller >= code_start && caller < code_end);
}

static int by_path(const char *path) {
    return path && strstr(path, file) != NULL;
}

static int by_descriptor(int descriptor) {
    return descriptor >= 0 && descriptor < DESCRIPTORS && concerned[descriptor];
}

/* Notes what was opened. */
static int opened(int descriptor) {
    if (descriptor < 0 || descriptor >= DESCRIPTORS) return descriptor;
    int before = errno;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    concerned[descriptor] = by_path(path) != 0;
    errno = before;
    return descriptor;
}

/* Reads and writes: -1, half of it, or 0 where it goes its way. */
static int halved(enum call call, int descriptor, size_t length) {
    if (!by_descriptor(descriptor) || !fails(call)) return 0;
    if (error_number) return -1;
    return length > 1 ? RESULT_HALF : 0;
}

ssize_t pread64(int descriptor, void *bytes, size_t length, off64_t offset) {
    REAL(ssize_t, "pread64", int, void *, size_t, off64_t);
    int fault = halved(READ, descriptor, length);
    return fault == -1 ? -1 : real(descriptor, bytes, fault ? length / 2 : length, offset);
}
ssize_t pread(int descriptor, void *bytes, size_t length, off_t offset) {
    return pread64(descriptor, bytes, length, offset);
}
ssize_t read(int descriptor, void *bytes, size_t length) {
    int fault = halved(READ, descriptor, length);
    return fault == -1 ? -1 : syscall(SYS_read, descriptor, bytes, fault ? length / 2 : length);
}
ssize_t preadv64(int descriptor, const struct iovec *parts, int many, off64_t offset) {
    REAL(ssize_t, "preadv64", int, const struct iovec *, int, off64_t);
    int fault = many ? halved(READ, descriptor, parts[0].iov_len) : 0;
    if (fault == RESULT_HALF) return syscall(SYS_pread64, descriptor, parts[0].iov_base, parts[0].iov_len / 2, offset);
    return fault ? -1 : real(descriptor, parts, many, offset);
}
ssize_t preadv(int descriptor, const struct iovec *parts, int many, off_t offset) {
    return preadv64(descriptor, parts, many, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t offset) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    int fault = halved(WRITE, descriptor, length);
    return fault == -1 ? -1 : real(descriptor, bytes, fault ? length / 2 : length, offset);
}
ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset) {
    return pwrite64(descriptor, bytes, length, offset);
}
ssize_t pwritev64(int descriptor, const struct iovec *parts, int many, off64_t offset) {
    REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t);
    int fault = many ? halved(WRITE, descriptor, parts[0].iov_len) : 0;
    if (fault == RESULT_HALF) return syscall(SYS_pwrite64, descriptor, parts[0].iov_base, parts[0].iov_len / 2, offset);
    return fault ? -1 : real(descriptor, parts, many, offset);
}
ssize_t pwritev(int descriptor, const struct iovec *parts, int many, off_t offset) {
    return pwritev64(descriptor, parts, many, offset);
}
ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int many, off64_t offset, int flags) {
    REAL(ssize_t, "pwritev64v2", int, const struct iovec *, int, off64_t, int);
    if (flags && by_descriptor(descriptor) && fails(DURABLE)) return -1;
    int fault = many ? halved(WRITE, descriptor, parts[0].iov_len) : 0;
    if (fault != RESULT_HALF) return fault ? -1 : real(descriptor, parts, many, offset, flags);
    struct iovec half = {parts[0].iov_base, parts[0].iov_len / 2};
    return real(descriptor, &half, 1, offset, flags);
}
ssize_t pwritev2(int descriptor, const struct iovec *parts, int many, off_t offset, int flags) {
    return pwritev64v2(descriptor, parts, many, offset, flags);
}

int fdatasync(int descriptor) {
    REAL(int, "fdatasync", int);
    return by_descriptor(descriptor) && fails(SYNC) ? -1 : real(descriptor);
}
int fsync(int descriptor) {
    REAL(int, "fsync", int);
    return by_descriptor(descriptor) && fails(SYNC) ? -1 : real(descriptor);
}
int ftruncate64(int descriptor, off64_t length) {
    REAL(int, "ftruncate64", int, off64_t);
    return by_descriptor(descriptor) && fails(LENGTH) ? -1 : real(descriptor, length);
}
int ftruncate(int descriptor, off_t length) {
    return ftruncate64(descriptor, length);
}
int posix_fallocate64(int descriptor, off64_t offset, off64_t length) {
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    return by_descriptor(descriptor) && fails(LENGTH) ? (int)error_number : real(descriptor, offset, length);
}
int posix_fallocate(int descriptor, off_t offset, off_t length) {
    return posix_fallocate64(descriptor, offset, length);
}

static int open_file(uintptr_t caller, const char *path, int flags, mode_t mode) {
    if ((by_path(path) || (*code && by_code(caller))) && fails(OPEN)) return -1;
    return opened((int)syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_file(CALLER, path, flags | O_LARGEFILE, mode);
}
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_file(CALLER, path, flags, mode);
}
int openat64(int directory, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((by_path(path) || (*code && by_code(CALLER))) && fails(OPEN)) return -1;
    return opened((int)syscall(SYS_openat, directory, path, flags | O_LARGEFILE, mode));
}
int close(int descriptor) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS) concerned[descriptor] = 0;
    return (int)syscall(SYS_close, descriptor);
}
int dup2(int from, int to) {
    return opened((int)syscall(SYS_dup3, from, to, 0));
}
DIR *opendir(const char *path) {
    REAL(DIR *, "opendir", const char *);
    return by_code(CALLER) && fails(OPEN) ? NULL : real(path);
}
int memfd_create(const char *name, unsigned flags) {
    REAL(int, "memfd_create", const char *, unsigned);
    return by_code(CALLER) && fails(OPEN) ? -1 : real(name, flags);
}
int eventfd(unsigned value, int flags) {
    REAL(int, "eventfd", unsigned, int);
    return by_code(CALLER) && fails(OPEN) ? -1 : real(value, flags);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    return by_path(path) && fails(UNLINK) ? -1 : real(path);
}
int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return by_path(from) && fails(RENAME) ? -1 : real(from, to);
}

/* Its path is declared as never null, but Linux takes null. */
int fault_statx(int directory, const char *volatile path, int flags, unsigned mask, void *result) {
    REAL(int, "statx", int, const char *, int, unsigned, void *);
    int hit = path && path[0] ? by_path(path) : by_descriptor(directory);
    return hit && fails(STAT) ? -1 : real(directory, path, flags, mask, result);
}
__asm__(".globl statx\n.set statx, fault_statx");
int stat64(const char *path, struct stat64 *result) {
    REAL(int, "stat64", const char *, struct stat64 *);
    return by_path(path) && fails(STAT) ? -1 : real(path, result);
}
int fstat64(int descriptor, struct stat64 *result) {
    REAL(int, "fstat64", int, struct stat64 *);
    return by_descriptor(descriptor) && fails(STAT) ? -1 : real(descriptor, result);
}
char *realpath(const char *path, char *result) {
    REAL(char *, "realpath", const char *, char *);
    return by_path(path) && fails(STAT) ? NULL : real(path, result);
}

static int control(int descriptor, int command, void *argument) {
    REAL(int, "fcntl64", int, int, ...);
    int locks = command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK || command == F_SETLK;
    if (locks && by_descriptor(descriptor) && fails(LOCK)) return -1;
    int result = real(descriptor, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? opened(result) : result;
}
int fcntl64(int descriptor, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control(descriptor, command, argument);
}
int fcntl(int descriptor, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control(descriptor, command, argument);
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset) {
    if (by_code(CALLER) && fails(MAP)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}
void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    if (by_code(CALLER) && fails(MAP)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    REAL(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return by_code(CALLER) && fails(THREAD) ? (int)error_number : real(thread, attributes, run, argument);
}

/* The calls of this library come by here as well; none of them is of a kind that fails. */
static long other_call(long number, long a, long b, long c, long d, long e, long f) {
    static long (*real)(long, ...);
    if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, a, b, c, d, e, f);
}
long fault_syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (number == RING_SETUP && no_ring) {
        errno = EPERM;
        return -1;
    }
    if (number == RING_SETUP && fails(RING)) return -1;
    if (number == RING_ENTER && fails(ENTER)) return -1;
    return other_call(number, a, b, c, d, e, f);
}
__asm__(".globl syscall\n.set syscall, fault_syscall");

extern void *__libc_malloc(size_t), *__libc_realloc(void *, size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t length) {
    return by_code(CALLER) && fails(MEMORY) ? NULL : __libc_malloc(length);
}
void *realloc(void *memory, size_t length) {
    return by_code(CALLER) && fails(MEMORY) ? NULL : __libc_realloc(memory, length);
}
void *calloc(size_t many, size_t length) {
    return by_code(CALLER) && fails(MEMORY) ? NULL : __libc_calloc(many, length);
}
int posix_memalign(void **memory, size_t alignment, size_t length) {
    if (by_code(CALLER) && fails(MEMORY)) return ENOMEM;
    *memory = __libc_memalign(alignment, length);
    return *memory ? 0 : ENOMEM;
}
void *aligned_alloc(size_t alignment, size_t length) {
    return by_code(CALLER) && fails(MEMORY) ? NULL : __libc_memalign(alignment, length);
}
