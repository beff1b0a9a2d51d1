/* A stub of libblkid's internal headers: as much as contrib/libblkid/lazyfs.c uses, over a buffer
 * in memory. What the probe says is kept in the struct. */
#ifndef LAZYFS_TEST_SUPERBLOCKS_H
#define LAZYFS_TEST_SUPERBLOCKS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define BLKID_PROBE_OK 0
#define BLKID_PROBE_NONE 1
#define BLKID_USAGE_FILESYSTEM (1 << 1)

struct stub_probe {
  const unsigned char* bytes;
  uint64_t size;
  unsigned char uuid[16];
  char label[256];
  char version[16];
  uint64_t fssize;
  uint32_t block_size, fsblocksize;
};
typedef struct stub_probe* blkid_probe;

struct blkid_idmag {
  const char* magic;
  unsigned len;
  long kboff;
  unsigned sboff;
};

struct blkid_idinfo {
  const char* name;
  int usage;
  uint64_t minsz;
  int (*probefunc)(blkid_probe pr, const struct blkid_idmag* mag);
  struct blkid_idmag magics[2];
};

const unsigned char* blkid_probe_get_buffer(blkid_probe pr, uint64_t off, uint64_t len);
int blkid_probe_verify_csum(blkid_probe pr, uint64_t csum, uint64_t expected);
int blkid_probe_set_label(blkid_probe pr, const unsigned char* label, size_t len);
int blkid_probe_set_uuid(blkid_probe pr, const unsigned char* uuid);
int blkid_probe_set_version(blkid_probe pr, const char* version);
int blkid_probe_set_fssize(blkid_probe pr, uint64_t size);
int blkid_probe_set_fsblocksize(blkid_probe pr, uint32_t block_size);
int blkid_probe_set_block_size(blkid_probe pr, unsigned block_size);

static inline uint32_t le32_to_cpu(uint32_t x) { return x; } /* the tests run on AMD64 */
static inline uint64_t le64_to_cpu(uint64_t x) { return x; }

#endif
