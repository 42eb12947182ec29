/* Memory runs out for litefoot alone: preloaded before it, refuses allocations that its code asks for.
 *
 * refuse_from(n, all): the n-th allocation from now on fails, and all after it where `all` is set; 0: none.
 * refuse_count(): how many there were since.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static uintptr_t first_address, last_address;
static long refuse_at, count;
static int refuse_all;

static int find(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "/liblitefoot.so")) return 0;
    first_address = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, to = from + info->dlpi_phdr[i].p_memsz;
        if (from < first_address) first_address = from;
        if (to > last_address) last_address = to;
    }
    return 1;
}

long refuse_from(long n, int all) {
    if (!last_address) dl_iterate_phdr(find, 0);
    __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
    refuse_all = all;
    __atomic_store_n(&refuse_at, n, __ATOMIC_SEQ_CST);
    return last_address != 0;
}

long refuse_count(void) { return __atomic_load_n(&count, __ATOMIC_SEQ_CST); }

static int refused(void *caller) {
    long at = __atomic_load_n(&refuse_at, __ATOMIC_SEQ_CST);
    if (!at || (uintptr_t)caller < first_address || (uintptr_t)caller >= last_address) return 0;
    long now = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (now != at && !(refuse_all && now > at)) return 0;
    errno = ENOMEM;
    return 1;
}

#define REFUSED refused(__builtin_return_address(0))

void *malloc(size_t n) { return REFUSED ? 0 : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return REFUSED ? 0 : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return REFUSED ? 0 : __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { return REFUSED ? 0 : __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
    if (REFUSED) return ENOMEM;
    *p = __libc_memalign(a, n);
    return *p ? 0 : ENOMEM;
}
