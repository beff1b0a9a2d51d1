/* libedi from a C program: every command, and every error that a host can provoke. The one
 * argument is a directory for images. */
#include <edi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPECT(expected, call)                                                            \
  do {                                                                                    \
    const long long found_ = (long long)(call), expected_ = (long long)(expected);        \
    if (found_ != expected_) {                                                            \
      printf("%s:%d: %s: found %lld, expected %lld\n", __FILE__, __LINE__, #call, found_, \
             expected_);                                                                  \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

enum { kBlock = 4096, kBandBlocks = 16 };

static char image[4096];

static void fill(unsigned char* bytes, size_t blocks, unsigned seed) {
  for (size_t i = 0; i < blocks * kBlock; ++i)
    bytes[i] = (unsigned char)(i * 7 + i / kBlock + seed);
}

static int pointer_of(edi_device* device, uint32_t band) {
  struct edi_band_request request = {.band = band};
  EXPECT(EDI_OK, edi_managebands(device, EDI_GET_WRITE_POINTER, &request));
  return (int)request.write_pointer;
}

static int manage(edi_device* device, enum edi_band_operation operation, uint32_t band,
                  uint32_t last_band, uint32_t write_pointer) {
  struct edi_band_request request = {
      .band = band, .last_band = last_band, .write_pointer = write_pointer};
  return edi_managebands(device, operation, &request);
}

static void create_says_what_is_impossible(void) {
  const struct edi_zone zones[] = {{6, kBandBlocks}, {2, 2 * kBandBlocks}};
  const struct edi_range conventional = {1, 1}, link = {4, 5};
  struct edi_geometry geometry = {.format = 1, .block_bytes = kBlock, .zones = zones};
  EXPECT(EDI_BAD_GEOMETRY, edi_create(image, &geometry, 0));
  geometry.zone_count = 2;
  geometry.block_bytes = 1000;
  EXPECT(EDI_BAD_GEOMETRY, edi_create(image, &geometry, 0));
  geometry.block_bytes = kBlock;
  geometry.conventional = &conventional;
  geometry.conventional_count = 1;
  geometry.links = &conventional;
  geometry.link_count = 1;
  EXPECT(EDI_BAD_GEOMETRY, edi_create(image, &geometry, 0)); /* a link of one conventional band */
  const struct edi_range backwards = {3, 1}, endless = {1, UINT32_MAX};
  geometry.link_count = 0;
  geometry.conventional = &backwards;
  EXPECT(EDI_BAD_GEOMETRY, edi_create(image, &geometry, 0));
  geometry.conventional = &endless;
  EXPECT(EDI_BAD_GEOMETRY, edi_create(image, &geometry, 0));
  geometry.conventional = &conventional;
  geometry.link_count = 1;
  geometry.links = &link;
  EXPECT(EDI_OK, edi_create(image, &geometry, 0));
  EXPECT(EDI_EXISTS, edi_create(image, &geometry, 0));
  EXPECT(EDI_OK, edi_create(image, &geometry, 1));
  EXPECT(EDI_INVALID, edi_create(NULL, &geometry, 1));
  EXPECT(EDI_INVALID, edi_create(image, NULL, 1));
  geometry.links = NULL;
  EXPECT(EDI_INVALID, edi_create(image, &geometry, 1));
}

static edi_device* open_it(unsigned flags) {
  edi_device* device = NULL;
  EXPECT(EDI_OK, edi_open(image, flags, &device));
  return device;
}

static void open_says_what_is_wrong(void) {
  edi_device* device = NULL;
  char name[4200];
  snprintf(name, sizeof name, "%s.missing", image);
  EXPECT(EDI_MISSING, edi_open(name, 0, &device));
  EXPECT(1, device == NULL);
  EXPECT(EDI_INVALID, edi_open(NULL, 0, &device));
  EXPECT(EDI_INVALID, edi_open(image, 0, NULL));
  EXPECT(EDI_INVALID, edi_open(image, 64, &device));
  EXPECT(EDI_INVALID, edi_open(image, EDI_OPEN_SHARED, &device)); /* two writers */
  snprintf(name, sizeof name, "%s.text", image);
  FILE* file = fopen(name, "w");
  EXPECT(1, file != NULL);
  fputs("certainly not an image", file);
  fclose(file);
  EXPECT(EDI_BAD_MAGIC, edi_open(name, 0, &device));
  remove(name);

  edi_device* first = open_it(0);
  EXPECT(EDI_BUSY, edi_open(image, 0, &device));
  EXPECT(EDI_OK, edi_close(open_it(EDI_OPEN_READ_ONLY | EDI_OPEN_SHARED)));
  EXPECT(EDI_OK, edi_close(first));
}

static void modesense_shows_the_geometry(edi_device* device) {
  struct edi_mode mode;
  EXPECT(EDI_OK, edi_modesense(device, &mode));
  EXPECT(1, mode.format);
  EXPECT(kBlock, mode.block_bytes);
  EXPECT(8, mode.band_count);
  EXPECT(10 * kBandBlocks, mode.total_blocks);
  EXPECT(1, mode.conventional_bands);
  EXPECT(1, mode.link_count);
  EXPECT(0, mode.read_only);
  struct edi_zone zones[4];
  uint32_t count = 0;
  EXPECT(EDI_OK, edi_modesense_zones(device, zones, 4, &count));
  EXPECT(2, count);
  EXPECT(2, zones[1].count);
  EXPECT(2 * kBandBlocks, zones[1].band_blocks);
  EXPECT(EDI_OK, edi_modesense_zones(device, NULL, 0, &count));
  EXPECT(EDI_INVALID, edi_modesense_zones(device, NULL, 2, &count));
  EXPECT(EDI_INVALID, edi_modesense(device, NULL));
  EXPECT(EDI_INVALID, edi_modesense(NULL, &mode));
}

/* Buffers of every alignment. */
static void blocks_come_back(edi_device* device) {
  const size_t blocks = 5;
  unsigned char* memory = aligned_alloc(kBlock, (blocks + 1) * kBlock);
  unsigned char* found = aligned_alloc(kBlock, (blocks + 1) * kBlock);
  EXPECT(1, memory != NULL && found != NULL);
  for (size_t shift = 0; shift < 3; ++shift) {
    unsigned char *from = memory + shift * 17, *to = found + shift * 31;
    fill(from, blocks, (unsigned)shift);
    EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(0, 0), from, 2));
    EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(0, 2), from + 2 * kBlock, blocks - 2));
    EXPECT(blocks, pointer_of(device, 0));
    EXPECT(EDI_OK, edi_read(device, EDI_ADDRESS(0, 0), to, blocks));
    EXPECT(0, memcmp(from, to, blocks * kBlock));
    EXPECT(EDI_OK, edi_read(device, EDI_ADDRESS(0, 3), to, 1));
    EXPECT(0, memcmp(from + 3 * kBlock, to, kBlock));
    EXPECT(EDI_OK, manage(device, EDI_RESET_WRITE_POINTER, 0, 0, 0));
  }
  free(memory);
  free(found);
}

static void wrong_places_have_their_own_errors(edi_device* device) {
  static unsigned char bytes[(kBandBlocks + 1) * kBlock + 1];
  unsigned char* odd = bytes + 1;
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(2, 0), odd, 3));
  EXPECT(EDI_NOT_AT_WRITE_POINTER, edi_write(device, EDI_ADDRESS(2, 0), odd, 1));
  EXPECT(EDI_NOT_AT_WRITE_POINTER, edi_write(device, EDI_ADDRESS(2, 4), odd, 1));
  EXPECT(EDI_PAST_BAND_END, edi_write(device, EDI_ADDRESS(2, 3), odd, kBandBlocks - 2));
  EXPECT(EDI_PAST_WRITE_POINTER, edi_read(device, EDI_ADDRESS(2, 2), odd, 2));
  EXPECT(EDI_PAST_WRITE_POINTER, edi_read(device, EDI_ADDRESS(2, 3), odd, 1));
  EXPECT(EDI_PAST_BAND_END, edi_read(device, EDI_ADDRESS(2, kBandBlocks), odd, 1));
  EXPECT(EDI_BAD_BAND, edi_read(device, EDI_ADDRESS(8, 0), odd, 1));
  EXPECT(EDI_BAD_BAND, edi_write(device, EDI_ADDRESS(UINT32_MAX, 0), odd, 1));
  EXPECT(EDI_BAND_OFFLINE, edi_write(device, EDI_ADDRESS(5, 0), odd, 1));
  EXPECT(EDI_INVALID, edi_read(device, EDI_ADDRESS(2, 0), NULL, 1));
  EXPECT(EDI_INVALID, edi_write(device, EDI_ADDRESS(2, 3), NULL, 1));
  EXPECT(EDI_INVALID, edi_read(NULL, EDI_ADDRESS(2, 0), odd, 1));
  EXPECT(3, pointer_of(device, 2));
}

static void write_pointers_are_managed(edi_device* device) {
  EXPECT(EDI_PAST_WRITE_POINTER, manage(device, EDI_SET_WRITE_POINTER, 2, 0, 4));
  EXPECT(EDI_OK, manage(device, EDI_SET_WRITE_POINTER, 2, 0, 1));
  EXPECT(1, pointer_of(device, 2));
  EXPECT(EDI_UNSUPPORTED, manage(device, EDI_SET_WRITE_POINTER, 1, 0, 0));
  EXPECT(EDI_UNSUPPORTED, manage(device, EDI_RESET_WRITE_POINTER, 1, 0, 0));
  EXPECT(EDI_BAD_BAND, manage(device, EDI_RESET_WRITE_POINTER, 8, 0, 0));
  EXPECT(EDI_INVALID, edi_managebands(device, EDI_RESET_WRITE_POINTER, NULL));
  EXPECT(EDI_INVALID, manage(device, (enum edi_band_operation)99, 0, 0, 0));
  EXPECT(EDI_OK, edi_managebands(device, EDI_RESET_ALL, NULL));
  EXPECT(0, pointer_of(device, 2));
  EXPECT(kBandBlocks, pointer_of(device, 1));
}

static long long taken_blocks(void) {
  struct stat file;
  EXPECT(0, stat(image, &file));
  return file.st_blocks;
}

static void reset_bands_take_no_space(edi_device* device) {
  static unsigned char bytes[kBandBlocks * kBlock];
  fill(bytes, kBandBlocks, 1);
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(0, 0), bytes, kBandBlocks));
  EXPECT(EDI_OK, edi_flush(device));
  const long long written = taken_blocks();
  EXPECT(EDI_OK, manage(device, EDI_RESET_WRITE_POINTER, 0, 0, 0));
  EXPECT(EDI_OK, edi_flush(device));
  EXPECT(1, taken_blocks() < written);
}

static void bands_are_reported(edi_device* device) {
  static unsigned char block[kBlock];
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(7, 0), block, 1));
  struct edi_band_report reports[10];
  struct edi_band_request request = {.band = 1, .report_count = 10, .reports = reports};
  EXPECT(EDI_OK, edi_managebands(device, EDI_REPORT, &request));
  EXPECT(7, request.report_count);
  EXPECT(EDI_CONVENTIONAL, reports[0].kind);
  EXPECT(EDI_EMPTY, reports[1].condition);
  EXPECT(2 * kBandBlocks, reports[3].blocks); /* band 4, with 5 linked to it */
  EXPECT(EDI_OFFLINE, reports[4].condition);
  EXPECT(7, reports[6].band);
  EXPECT(EDI_OPEN, reports[6].condition);
  EXPECT(1, reports[6].write_pointer);
  request.reports = NULL;
  EXPECT(EDI_INVALID, edi_managebands(device, EDI_REPORT, &request));
  request = (struct edi_band_request){.band = 8, .report_count = 10, .reports = reports};
  EXPECT(EDI_OK, edi_managebands(device, EDI_REPORT, &request)); /* past the last band */
  EXPECT(0, request.report_count);
  request = (struct edi_band_request){.band = 9, .report_count = 10, .reports = reports};
  EXPECT(EDI_BAD_BAND, edi_managebands(device, EDI_REPORT, &request));
  EXPECT(EDI_OK, manage(device, EDI_RESET_WRITE_POINTER, 7, 0, 0));
}

static void linked_bands_are_one(edi_device* device) {
  static unsigned char from[2 * kBandBlocks * kBlock], to[2 * kBandBlocks * kBlock];
  fill(from, 2 * kBandBlocks, 3);
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(4, 0), from, kBandBlocks + 3)); /* across its end */
  EXPECT(kBandBlocks + 3, pointer_of(device, 4));
  EXPECT(EDI_OK, edi_read(device, EDI_ADDRESS(4, kBandBlocks - 1), to, 3));
  EXPECT(0, memcmp(from + (kBandBlocks - 1) * kBlock, to, 3 * kBlock));
  EXPECT(EDI_PAST_BAND_END, edi_write(device, EDI_ADDRESS(4, kBandBlocks + 3), from, kBandBlocks));
  EXPECT(EDI_OK, edi_flush(device));
}

static void links_come_and_go(edi_device* device) {
  EXPECT(EDI_BAND_NOT_EMPTY, manage(device, EDI_UNLINK, 4, 0, 0));
  EXPECT(EDI_OK, manage(device, EDI_RESET_WRITE_POINTER, 4, 0, 0));
  EXPECT(EDI_OK, manage(device, EDI_UNLINK, 4, 0, 0));
  EXPECT(EDI_BAD_GEOMETRY, manage(device, EDI_UNLINK, 4, 0, 0));
  EXPECT(0, pointer_of(device, 5));
  static unsigned char block[kBlock];
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(5, 0), block, 1));
  EXPECT(EDI_OK, manage(device, EDI_RESET_WRITE_POINTER, 5, 0, 0));
  EXPECT(0, pointer_of(device, 5));
  EXPECT(EDI_BAD_GEOMETRY, manage(device, EDI_LINK, 0, 1, 0)); /* 1 is conventional */
  EXPECT(EDI_BAD_GEOMETRY, manage(device, EDI_LINK, 3, 2, 0));
  EXPECT(EDI_BAD_GEOMETRY, manage(device, EDI_LINK, 2, 2, 0));
  EXPECT(EDI_BAD_BAND, manage(device, EDI_LINK, 7, 8, 0));
  EXPECT(EDI_OK, manage(device, EDI_LINK, 6, 7, 0));
  EXPECT(EDI_BAD_GEOMETRY, manage(device, EDI_LINK, 6, 7, 0));
  EXPECT(EDI_BAND_OFFLINE, manage(device, EDI_RESET_WRITE_POINTER, 7, 0, 0));
  edi_device* other = NULL;
  EXPECT(EDI_BUSY, edi_open(image, 0, &other)); /* the image is still claimed */
  static unsigned char bytes[3 * kBandBlocks * kBlock];
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(6, 0), bytes, 3 * kBandBlocks));
}

static void everything_outlives_the_device(void) {
  edi_device* device = open_it(EDI_OPEN_READ_ONLY);
  struct edi_mode mode;
  EXPECT(EDI_OK, edi_modesense(device, &mode));
  EXPECT(1, mode.link_count);
  EXPECT(1, mode.read_only);
  EXPECT(3 * kBandBlocks, pointer_of(device, 6));
  unsigned char block[kBlock];
  EXPECT(EDI_OK, edi_read(device, EDI_ADDRESS(6, 3 * kBandBlocks - 1), block, 1));
  EXPECT(EDI_READ_ONLY, edi_write(device, EDI_ADDRESS(0, 0), block, 1));
  EXPECT(EDI_READ_ONLY, manage(device, EDI_LINK, 2, 3, 0));
  EXPECT(EDI_OK, edi_close(device));
}

static void format_0_works_too(void) {
  const struct edi_zone zone = {10, 2000};
  const struct edi_geometry geometry = {
      .format = 0, .block_bytes = kBlock, .zones = &zone, .zone_count = 1};
  EXPECT(EDI_OK, edi_create(image, &geometry, 1));
  edi_device* device = open_it(0);
  unsigned char* bytes = calloc(1500, kBlock); /* more than the library copies at once */
  EXPECT(1, bytes != NULL);
  fill(bytes, 1500, 9);
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(9, 0), bytes, 1500));
  EXPECT(EDI_PAST_BAND_END, edi_write(device, EDI_ADDRESS(9, 1500), bytes + 1, 501));
  EXPECT(1500, pointer_of(device, 9)); /* nothing of it was written */
  EXPECT(EDI_UNSUPPORTED, manage(device, EDI_LINK, 1, 2, 0));
  EXPECT(EDI_OK, edi_close(device));
  device = open_it(0);
  unsigned char* found = calloc(1500, kBlock);
  EXPECT(1, found != NULL);
  EXPECT(EDI_OK, edi_read(device, EDI_ADDRESS(9, 0), found, 1500));
  EXPECT(0, memcmp(bytes, found, 1500 * kBlock));
  EXPECT(EDI_OK, edi_close(device));
  free(bytes);
  free(found);
}

/* Makes writes past an offset fail, as on a full file system. */
static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  EXPECT(0, getrlimit(RLIMIT_FSIZE, &limit));
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  EXPECT(0, setrlimit(RLIMIT_FSIZE, &limit));
}

static void a_full_file_system_has_its_own_errors(void) {
  static unsigned char block[kBlock];
  signal(SIGXFSZ, SIG_IGN);
  edi_device* device = open_it(0);
  limit_files(1 << 16);
  EXPECT(EDI_NO_SPACE, edi_write(device, EDI_ADDRESS(2, 0), block, 1));
  limit_files(RLIM_INFINITY);
  EXPECT(EDI_BAND_FAILED, edi_write(device, EDI_ADDRESS(2, 0), block, 1));
  EXPECT(EDI_OK, manage(device, EDI_RESET_WRITE_POINTER, 2, 0, 0));
  EXPECT(EDI_OK, edi_write(device, EDI_ADDRESS(2, 0), block, 1));
  EXPECT(EDI_OK, edi_close(device));
}

/* Changes a byte of both copies of the header. */
static void damage(long at) {
  FILE* file = fopen(image, "r+");
  EXPECT(1, file != NULL);
  for (long copy = 0; copy < 2; ++copy) {
    fseek(file, at + (copy << 16), SEEK_SET);
    fputc(99, file);
  }
  fclose(file);
}

static void damaged_images_have_their_own_errors(void) {
  const struct edi_zone zone = {10, kBandBlocks};
  const struct edi_geometry geometry = {
      .format = 1, .block_bytes = kBlock, .zones = &zone, .zone_count = 1};
  edi_device* device = NULL;
  EXPECT(EDI_OK, edi_create(image, &geometry, 1));
  EXPECT(0, truncate(image, 9 * kBandBlocks * kBlock));
  EXPECT(EDI_TRUNCATED, edi_open(image, 0, &device));
  EXPECT(EDI_OK, edi_create(image, &geometry, 1));
  damage(100);
  EXPECT(EDI_BAD_HEADER, edi_open(image, 0, &device));
  damage(20);
  EXPECT(EDI_BAD_CHECKSUM, edi_open(image, 0, &device));
  damage(4);
  EXPECT(EDI_BAD_VERSION, edi_open(image, 0, &device));
}

static void every_error_has_words_of_its_own(void) {
  for (int i = EDI_OK; i <= EDI_FAILED; ++i) {
    for (int j = EDI_OK; j < i; ++j) EXPECT(1, strcmp(edi_strerror(i), edi_strerror(j)) != 0);
  }
  EXPECT(0, strcmp(edi_strerror(-1), edi_strerror(EDI_FAILED)));
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  snprintf(image, sizeof image, "%s/%s.edi", argv[1], strrchr(argv[0], '/') + 1);
  remove(image);
  create_says_what_is_impossible();
  open_says_what_is_wrong();
  edi_device* device = open_it(0);
  modesense_shows_the_geometry(device);
  blocks_come_back(device);
  wrong_places_have_their_own_errors(device);
  write_pointers_are_managed(device);
  reset_bands_take_no_space(device);
  bands_are_reported(device);
  linked_bands_are_one(device);
  links_come_and_go(device);
  EXPECT(EDI_OK, edi_close(device));
  EXPECT(EDI_INVALID, edi_close(NULL));
  everything_outlives_the_device();
  a_full_file_system_has_its_own_errors();
  format_0_works_too();
  damaged_images_have_their_own_errors();
  every_error_has_words_of_its_own();
  remove(image);
  return 0;
}
