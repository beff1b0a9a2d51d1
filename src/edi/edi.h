/* libedi: emulated shingled disks, as a C library.
 *
 * An Emulated Disk Image (EDI) is a banded device in a file or on a plain block device. Its
 * commands are modelled on the T13 Banded Device Command Set: a band is written from its start to
 * its end, at its write pointer only; block addresses are band << 32 | RBA (block number within the
 * band). Conventional bands take writes anywhere. Linked bands act as one larger band, see
 * EDI_LINK.
 *
 * Functions return EDI_OK (0) or one of enum edi_error; edi_strerror() returns its message. Several
 * threads may use a device at once, but no other call may run during edi_close(), EDI_LINK and
 * EDI_UNLINK, and two writes to one band must not run at the same time.
 *
 * Writes that a completed edi_flush() covers survive a power cut. Later writes may be lost, kept or
 * torn.
 */
#ifndef LAZYFS_EDI_H
#define LAZYFS_EDI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number never changes its meaning. New numbers are added at the end. */
enum edi_error {
  EDI_OK = 0,
  EDI_NOT_AT_WRITE_POINTER = 1, /* a write that does not start at the band's write pointer */
  EDI_PAST_BAND_END = 2,        /* an access that reaches past the end of the band */
  EDI_PAST_WRITE_POINTER = 3, /* a read at or past the write pointer; a pointer set forward */
  EDI_BAD_BAND = 4,           /* no band with that number */
  EDI_BAD_GEOMETRY = 5,       /* sizes, counts or links that no image can have */
  EDI_BAND_OFFLINE = 6,       /* the band is a later part of a link; use the first one's number */
  EDI_BAND_READ_ONLY = 7,
  EDI_BAND_FAILED = 8,    /* an earlier write to it failed; reset it or set its pointer */
  EDI_BAND_NOT_EMPTY = 9, /* only empty bands are linked and unlinked */
  EDI_UNSUPPORTED = 10,   /* not possible on a conventional band or in this format */
  EDI_READ_FAILED = 11,
  EDI_WRITE_FAILED = 12, /* the write pointer is at the end of the part that was written */
  EDI_FLUSH_FAILED = 13, /* writes since the last flush may be lost */
  EDI_NO_SPACE = 14,     /* on the file system or device that holds the image */
  EDI_MISSING = 15,      /* no such file or device */
  EDI_BUSY = 16,         /* in use, or mounted */
  EDI_ACCESS = 17,       /* no permission */
  EDI_READ_ONLY = 18,    /* open for reading, or on a read-only file system */
  EDI_EXISTS = 19,       /* the file or image already exists */
  EDI_TRUNCATED = 20,    /* shorter than its header says */
  EDI_BAD_MAGIC = 21,    /* not an EDI */
  EDI_BAD_VERSION = 22,  /* an unknown format version */
  EDI_BAD_CHECKSUM = 23, /* no intact header, or no intact copy of a write pointer */
  EDI_BAD_HEADER = 24,   /* impossible values in the header */
  EDI_INVALID = 25,      /* an invalid argument (a null pointer, an unknown operation) */
  EDI_NO_MEMORY = 26,
  EDI_FAILED = 27 /* any other error */
};

/* Returns the message of an error. Never null; the caller must not free it. */
const char* edi_strerror(int error);

typedef struct edi_device edi_device;

#define EDI_OPEN_READ_ONLY 1u /* changes nothing, not even write pointers */
#define EDI_OPEN_SHARED 2u    /* does not claim the image; valid with EDI_OPEN_READ_ONLY only */

/* Opens an image. Without EDI_OPEN_SHARED no other process may claim the image until edi_close().
 * On success the caller must close *device with edi_close(). On an error *device is NULL. */
int edi_open(const char* path, unsigned flags, edi_device** device);
/* Flushes and closes. The device is closed even if this returns an error. */
int edi_close(edi_device* device);
/* Makes all completed calls durable. */
int edi_flush(edi_device* device);

/* `count` neighbouring bands of one size. */
struct edi_zone {
  uint32_t count;
  uint32_t band_blocks;
};
/* The bands `first` to `last`, both included. */
struct edi_range {
  uint32_t first;
  uint32_t last;
};
struct edi_geometry {
  uint32_t format;      /* 0 (one zone, no conventional or linked bands) or 1 */
  uint32_t block_bytes; /* a power of two, 512 to 65536 */
  const struct edi_zone* zones;
  uint32_t zone_count;
  const struct edi_range* conventional;
  uint32_t conventional_count;
  const struct edi_range* links;
  uint32_t link_count;
};
/* Makes an empty image in a new sparse file or on a block device. If `overwrite` is 0, returns
 * EDI_EXISTS for an existing file or image; otherwise replaces it. On a block device also wipes the
 * last 2 MiB, where other formats keep copies. */
int edi_create(const char* path, const struct edi_geometry* geometry, int overwrite);

/* Parameters that only EDI_LINK and EDI_UNLINK change. */
struct edi_mode {
  uint32_t format;
  uint32_t block_bytes;
  uint32_t band_count;
  uint32_t zone_count;
  uint64_t total_blocks;
  uint64_t image_bytes;
  uint32_t conventional_bands; /* number of conventional bands */
  uint32_t link_count;
  uint32_t read_only; /* 1: open for reading only */
  uint32_t reserved;  /* 0 */
};
/* Stores the device's parameters in *mode. */
int edi_modesense(edi_device* device, struct edi_mode* mode);
/* Stores the first `capacity` zones at most, in band order. Sets *count to the number of all
 * zones. */
int edi_modesense_zones(edi_device* device, struct edi_zone* zones, uint32_t capacity,
                        uint32_t* count);

enum edi_band_kind { EDI_SHINGLED = 0, EDI_CONVENTIONAL = 1 };
enum edi_band_condition {
  EDI_EMPTY = 0,
  EDI_OPEN = 1, /* partly written */
  EDI_FULL = 2,
  EDI_READABLE = 3, /* reads work, writes never again */
  EDI_OFFLINE = 4   /* a later part of a link */
};
struct edi_band_report {
  uint32_t band;
  uint32_t kind;          /* enum edi_band_kind */
  uint32_t condition;     /* enum edi_band_condition */
  uint32_t blocks;        /* of a link: the blocks of all its bands */
  uint32_t write_pointer; /* RBA of the next write; of a conventional band: its size */
  uint32_t reserved;      /* 0 */
};

enum edi_band_operation {
  EDI_GET_WRITE_POINTER = 0, /* of `band`, into `write_pointer` */
  EDI_SET_WRITE_POINTER = 1, /* of `band` back to `write_pointer`; later blocks are discarded */
  EDI_RESET_WRITE_POINTER = 2, /* of `band`, to 0 */
  EDI_RESET_ALL = 3,           /* of every shingled band, to 0 */
  EDI_REPORT = 4,              /* bands from `band` on: fills reports[0 .. report_count), sets
                                  report_count to the number filled */
  EDI_LINK = 5,  /* joins the bands `band` to `last_band` to one larger band with the number
                    `band` and one write pointer. Block numbers continue from each band to the
                    next; reads and writes may cross band ends. The other bands become offline.
                    The bands must be shingled, empty and in no link. Durable. */
  EDI_UNLINK = 6 /* ends the link whose first band is `band`. It must be empty. Durable. */
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

/* Reads or writes whole blocks, from `address` on. A buffer may have any alignment; an alignment of
 * 4096 bytes saves a copy. A write must start at the write pointer (in a conventional band:
 * anywhere). A read must not pass the write pointer. */
int edi_read(edi_device* device, uint64_t address, void* buffer, uint32_t blocks);
int edi_write(edi_device* device, uint64_t address, const void* buffer, uint32_t blocks);

#ifdef __cplusplus
}
#endif

#endif
