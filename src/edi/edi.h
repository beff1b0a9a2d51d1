/* libedi: emulated shingled disks, as a C library.
 *
 * An Emulated Disk Image (EDI) is a banded device in a file or on a plain block device. Its
 * commands are modelled on the T13 Banded Device Command Set: a band is written from its start to
 * its end, at its write pointer only; block addresses are band << 32 | RBA (block number within the
 * band). Conventional bands take writes anywhere. Linked bands act as one larger band, see
 * EDI_LINK.
 *
 * Functions return EDI_OK (0) or one of enum edi_error; edi_strerror() says it in words. A device
 * may be used by many threads at once, but no other call may run during edi_close(), EDI_LINK and
 * EDI_UNLINK, and two writes to one band must not run at the same time.
 *
 * What edi_flush() covered survives a power cut. What was written later may be lost, kept or torn.
 */
#ifndef LAZYFS_EDI_H
#define LAZYFS_EDI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers never change; new ones are added behind. */
enum edi_error {
  EDI_OK = 0,
  EDI_NOT_AT_WRITE_POINTER = 1, /* a write that does not start at the band's write pointer */
  EDI_PAST_BAND_END = 2,        /* an access that reaches past the end of the band */
  EDI_PAST_WRITE_POINTER = 3, /* a read at the write pointer or behind it; a pointer set forward */
  EDI_BAD_BAND = 4,           /* no band of that number */
  EDI_BAD_GEOMETRY = 5,       /* sizes, counts, links that no image can have */
  EDI_BAND_OFFLINE = 6,       /* the band is a later part of a link; use the first one's number */
  EDI_BAND_READ_ONLY = 7,
  EDI_BAND_FAILED = 8,    /* an earlier write to it failed; reset it or set its pointer */
  EDI_BAND_NOT_EMPTY = 9, /* only empty bands are linked and unlinked */
  EDI_UNSUPPORTED = 10,   /* not on a conventional band, or not in this format */
  EDI_READ_FAILED = 11,
  EDI_WRITE_FAILED = 12, /* the write pointer tells how far it came */
  EDI_FLUSH_FAILED = 13, /* what was written since the last flush must be taken as lost */
  EDI_NO_SPACE = 14,     /* where the image lies, or for an image of that size */
  EDI_MISSING = 15,      /* no such file or device */
  EDI_BUSY = 16,         /* in use, or mounted */
  EDI_ACCESS = 17,       /* no permission */
  EDI_READ_ONLY = 18,    /* opened for reading, or on a read-only file system */
  EDI_EXISTS = 19,       /* there is a file or image already */
  EDI_TRUNCATED = 20,    /* shorter than its header says */
  EDI_BAD_MAGIC = 21,    /* not an EDI */
  EDI_BAD_VERSION = 22,  /* of a format that is not known */
  EDI_BAD_CHECKSUM = 23, /* no intact header, or no intact copy of a write pointer */
  EDI_BAD_HEADER = 24,   /* impossible values in the header */
  EDI_INVALID = 25,      /* an argument makes no sense (a null pointer, an unknown operation) */
  EDI_NO_MEMORY = 26,
  EDI_FAILED = 27 /* anything else */
};

/* Never null; the text need not be freed. */
const char* edi_strerror(int error);

typedef struct edi_device edi_device;

#define EDI_OPEN_READ_ONLY 1u /* changes nothing, not even write pointers */
#define EDI_OPEN_SHARED 2u    /* do not claim the image; for looking at one that is in use */

/* Opens an image. Unless EDI_OPEN_SHARED is given nobody else may claim it until edi_close().
 * On success *device must be closed with edi_close(); else it is set to NULL. */
int edi_open(const char* path, unsigned flags, edi_device** device);
/* Flushes and closes; the device is gone also when this fails. */
int edi_close(edi_device* device);
/* Makes what completed before durable. */
int edi_flush(edi_device* device);

/* `count` neighbouring bands of one size. */
struct edi_zone {
  uint32_t count;
  uint32_t band_blocks;
};
/* The bands first to last, both included. */
struct edi_range {
  uint32_t first;
  uint32_t last;
};
struct edi_geometry {
  uint32_t format;      /* 0: one zone, nothing conventional or linked; 1 */
  uint32_t block_bytes; /* a power of two, 512 to 65536 */
  const struct edi_zone* zones;
  uint32_t zone_count;
  const struct edi_range* conventional;
  uint32_t conventional_count;
  const struct edi_range* links;
  uint32_t link_count;
};
/* Makes an empty image in a new sparse file or on a block device. What is there already is
 * replaced only if `overwrite` is not 0; else EDI_EXISTS. */
int edi_create(const char* path, const struct edi_geometry* geometry, int overwrite);

/* What never changes, but for links. */
struct edi_mode {
  uint32_t format;
  uint32_t block_bytes;
  uint32_t band_count;
  uint32_t zone_count;
  uint64_t total_blocks;
  uint64_t image_bytes;
  uint32_t conventional_bands; /* how many of the bands */
  uint32_t link_count;
  uint32_t read_only; /* 1: it was opened so */
  uint32_t reserved;  /* 0 */
};
/* The device's parameters. */
int edi_modesense(edi_device* device, struct edi_mode* mode);
/* The zones, from the first band to the last: at most `capacity` are stored, *count are there. */
int edi_modesense_zones(edi_device* device, struct edi_zone* zones, uint32_t capacity,
                        uint32_t* count);

enum edi_band_kind { EDI_SHINGLED = 0, EDI_CONVENTIONAL = 1 };
enum edi_band_condition {
  EDI_EMPTY = 0,
  EDI_OPEN = 1, /* partly written */
  EDI_FULL = 2,
  EDI_READABLE = 3, /* can be read, never again written */
  EDI_OFFLINE = 4   /* a later part of a link */
};
struct edi_band_report {
  uint32_t band;
  uint32_t kind;          /* enum edi_band_kind */
  uint32_t condition;     /* enum edi_band_condition */
  uint32_t blocks;        /* of a link: all of its bands' */
  uint32_t write_pointer; /* RBA of the next write; of a conventional band: its size */
  uint32_t reserved;      /* 0 */
};

enum edi_band_operation {
  EDI_GET_WRITE_POINTER = 0, /* of `band`, into `write_pointer` */
  EDI_SET_WRITE_POINTER = 1, /* of `band` back to `write_pointer`; what lies behind is forgotten */
  EDI_RESET_WRITE_POINTER = 2, /* of `band`, to 0 */
  EDI_RESET_ALL = 3,           /* of every shingled band, to 0 */
  EDI_REPORT = 4,              /* bands from `band` on: fills reports[0 .. report_count), sets
                                  report_count to the number filled */
  EDI_LINK = 5,  /* makes the bands `band` to `last_band`, all shingled, empty and in no
                    link, one larger band with the number `band`: its blocks are numbered
                    on over the end of each, reads and writes run over it, and one write
                    pointer serves all. The others' numbers stay, offline. Durable. */
  EDI_UNLINK = 6 /* ends the link that `band` begins, which must be empty. Durable. */
};
struct edi_band_request {
  uint32_t band;
  uint32_t last_band;
  uint32_t write_pointer;
  uint32_t report_count;
  struct edi_band_report* reports;
};
int edi_managebands(edi_device* device, enum edi_band_operation operation,
                    struct edi_band_request* request);

#define EDI_ADDRESS(band, rba) ((uint64_t)(band) << 32 | (uint32_t)(rba))

/* Reads or writes whole blocks, from `address` on. Buffers may lie anywhere; those that are aligned
 * to 4096 bytes save a copy. A write must start at the write pointer (conventional bands:
 * anywhere), a read must end before it. */
int edi_read(edi_device* device, uint64_t address, void* buffer, uint32_t blocks);
int edi_write(edi_device* device, uint64_t address, const void* buffer, uint32_t blocks);

#ifdef __cplusplus
}
#endif

#endif
