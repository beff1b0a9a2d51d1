#include "tools/edistats_page.h"

#include <string_view>

#include "base/json.h"

namespace lazyfs::tools {
namespace {

constexpr std::string_view kStyle = R"css(
body { font-family: sans-serif; margin: 1em; color: #222; background: #fff }
#hover { position: sticky; top: 0; background: #fff; padding: .5em 16px; min-height: 1.3em;
         border-bottom: 1px solid #ccc; font-size: 14px }
.band { cursor: pointer }
.band:hover rect, .band:focus rect { filter: brightness(.85) }
#map { overflow-x: auto }
#zoom { margin: 0 16px; scroll-margin-top: 3em; font-size: 14px }
#zoom canvas { width: 100%; height: 48px; background: #eceff2 }
#zoom table { border-collapse: collapse; margin: .5em 0 }
#zoom th, #zoom td { padding: .1em .8em .1em 0; text-align: right; font-weight: normal }
#zoom th { border-bottom: 1px solid #888 }
#zoom .text { text-align: left; overflow-wrap: anywhere }
pre { font-size: 12px; margin-left: 16px }
@media (prefers-color-scheme: dark) {
  body, #hover { color: #ddd; background: #16181b }
  #zoom canvas { background: #2b2f34 }
  a { color: #8ab4f8 }
}
)css";

constexpr std::string_view kScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const lines = new Map(data.bands.map(([band, state, blocks, pointer, live, dead]) =>
  [band, {band, state, blocks, pointer, live, dead}]));
const numbers = [...lines.keys()];
const hover = document.getElementById('hover'), rest = hover.textContent;
const zoom = document.getElementById('zoom');
const kMostFiles = 100, kMostAppends = 1000;

function add(parent, name, text = '', properties = {}) {
  const child = document.createElement(name);
  child.textContent = text;
  parent.append(Object.assign(child, properties));
  return child;
}

function sizeText(blocks) {
  let value = blocks * data.block_size / 1024, unit = 0;
  while (value >= 1024 && unit < 4) { value /= 1024; ++unit; }
  return `${Number(value.toPrecision(4))} ${['KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit]}`;
}

function table(heads, rows, most) {
  const body = add(zoom, 'table');
  const line = (cells, kind) => {
    const row = add(body, 'tr');
    cells.forEach((cell, i) => {
      const to = add(row, kind, '', {className: heads[i].startsWith('=') ? 'text' : ''});
      if (cell instanceof Node) to.append(cell); else to.textContent = cell;
    });
  };
  line(heads.map(head => head.replace('=', '')), 'th');
  for (const row of rows.slice(0, most)) line(row, 'td');
  if (rows.length > most) add(zoom, 'p', `and ${rows.length - most} more`);
}

function link(text, fragment) {
  const to = document.createElement('a');
  to.href = fragment;
  to.textContent = text;
  return to;
}

// The file of an append; data.names has one [inode, path] for each.
function nameOf(index) {
  if (index < 0) return 'no file: left behind by a crash or a failed append';
  const [inode, path] = data.names[index];
  return path ?? `inode ${inode}, which has no name`;
}

function fateOf([, blocks, dead]) {
  if (dead === 0) return 'live';
  return dead === blocks ? 'dead' : `${dead} of ${blocks} dead`;
}

function drawStrip(line, history) {
  const strip = add(zoom, 'canvas', '', {width: 2048, height: 48, id: 'strip'});
  const pen = strip.getContext('2d'), x = block => block * strip.width / line.blocks;
  const fill = (colour, first, blocks) => {
    pen.fillStyle = colour;
    pen.fillRect(x(first), 0, Math.max(x(blocks), 1), strip.height);
  };
  for (const [rba, blocks] of history.appends) fill('#2a6fbb', rba, blocks);
  for (const [rba, blocks] of history.dead) fill('#e39a4f', rba, blocks);
  strip.addEventListener('mousemove', event => {
    const block = event.offsetX / strip.clientWidth * line.blocks;
    const at = history.appends.findLast(([rba]) => rba <= block);
    const isIn = at && block < at[0] + at[1];
    hover.textContent = isIn ? `Band ${line.band}, block ${at[0]}: ${at[1]} blocks of ` +
      `${nameOf(at[3])}, ${fateOf(at)}` : `Band ${line.band}: not written there`;
  });
  strip.addEventListener('mouseleave', () => { hover.textContent = rest; });
}

function listFiles(history) {
  const files = new Map();
  for (const [, blocks, dead, name] of history.appends) {
    const file = files.get(name) ?? {live: 0, dead: 0};
    file.live += blocks - dead;
    file.dead += dead;
    files.set(name, file);
  }
  const rows = [...files].sort(([, a], [, b]) => b.live - a.live || b.dead - a.dead);
  add(zoom, 'h3', `Files (${rows.length})`);
  table(['live', 'dead', '=file'], rows.map(([name, file]) =>
    [sizeText(file.live), sizeText(file.dead), nameOf(name)]), kMostFiles);
}

function listAppends(history) {
  add(zoom, 'h3', `History: ${history.appends.length} appends since the last reset, oldest first`);
  table(['block', 'size', 'offset in the file', '=file', '=now'], history.appends.map(append =>
    [append[0], sizeText(append[1]), append[4] * data.block_size, nameOf(append[3]),
     fateOf(append)]), kMostAppends);
}

function showBand(line) {
  const at = numbers.indexOf(line.band);
  add(zoom, 'h2', `Band ${line.band}: ${line.state}`);
  const ways = add(zoom, 'p');
  if (at > 0) ways.append(link('previous', `#band-${numbers[at - 1]}`), ' ');
  if (at + 1 < numbers.length) ways.append(link('next', `#band-${numbers[at + 1]}`), ' ');
  ways.append(link('close', '#'));
  add(zoom, 'p', `${sizeText(line.live)} live, ${sizeText(line.dead)} dead of ` +
    `${sizeText(line.blocks)}; write pointer at block ${line.pointer} of ${line.blocks}`);
  const history = data.histories[line.band];
  const damage = data.unreadable[line.band];
  if (damage) {
    add(zoom, 'p', `Its log cannot be read: ${damage}. fsck.lazyfs -n says what is damaged.`);
  } else if (history) {
    drawStrip(line, history);
    listFiles(history);
    listAppends(history);
  } else {
    const isOfFiles = line.live + line.dead > 0 && line.state !== 'log' && line.state !== 'super';
    add(zoom, 'p', isOfFiles ? 'Its files are not on this page. To have them, make the page with ' +
      `--zoom ${line.band}.` : 'It holds no file data.');
  }
}

function showBands(first, last) {
  add(zoom, 'h2', `Bands ${first} to ${last}`);
  add(zoom, 'p').append(link('close', '#'));
  const shown = numbers.filter(band => first <= band && band <= last).map(band => lines.get(band));
  table(['band', '=state', 'live', 'dead', 'size'], shown.map(line =>
    [link(line.band, `#band-${line.band}`), line.state, sizeText(line.live), sizeText(line.dead),
     sizeText(line.blocks)]), shown.length);
}

function show() {
  const [, first, , last] = location.hash.match(/^#bands?-(\d+)(-(\d+))?$/) ?? [];
  zoom.replaceChildren();
  const line = lines.get(Number(first));
  if (last !== undefined) showBands(Number(first), Number(last));
  else if (line) showBand(line);
  if (zoom.firstChild) zoom.scrollIntoView();
}

for (const bar of document.querySelectorAll('.band')) {
  const title = bar.querySelector('title').textContent;
  const [first, last] = bar.dataset.bands.split('-');
  const open = () => {
    location.hash = first === last ? `#band-${first}` : `#bands-${first}-${last}`;
  };
  bar.setAttribute('tabindex', 0);
  bar.setAttribute('role', 'button');
  bar.addEventListener('click', open);
  bar.addEventListener('keydown', event => { if (event.key === 'Enter') open(); });
  bar.addEventListener('mouseenter', () => { hover.textContent = title; });
  bar.addEventListener('mouseleave', () => { hover.textContent = rest; });
}
document.addEventListener('keydown', event => {
  if (event.key === 'Escape') location.hash = '#';
});
window.addEventListener('hashchange', show);
show();
)js";

// Numbers the files, in the order in which they are asked for.
class Names {
 public:
  explicit Names(const std::map<InodeNo, std::string>& paths) : paths_(paths) {}

  std::int64_t index_of(InodeNo inode) {
    if (inode.value == 0) return -1;
    const auto [at, is_new] = indexes_.emplace(inode, static_cast<std::int64_t>(indexes_.size()));
    if (is_new) {
      const auto path = paths_.find(inode);
      list_.push_back(std::vector<Json>{inode.value,
                                        path == paths_.end() ? Json() : Json(path->second)});
    }
    return at->second;
  }
  const Json& list() const { return list_; }

 private:
  const std::map<InodeNo, std::string>& paths_;
  std::map<InodeNo, std::int64_t> indexes_;
  Json list_ = Json::array();
};

Json json_of(const fs::BandHistory& history, Names& names) {
  Json appends = Json::array(), dead = Json::array();
  for (const fs::BandAppend& append : history.appends) {
    appends.push_back(std::vector<Json>{append.rba, append.blocks, append.dead,
                                        names.index_of(append.inode), append.file_block});
  }
  for (const fs::DeadBlocks& range : history.dead) {
    dead.push_back(std::vector<Json>{range.rba, range.blocks});
  }
  return Json::object({{"appends", appends}, {"dead", dead}});
}

std::string json_of(const fs::BandReport& report, const BandDetails& details) {
  Json bands = Json::array(), histories = Json::object(), unreadable = Json::object();
  for (const fs::BandLine& line : report.bands) {
    bands.push_back(std::vector<Json>{line.band.value, name_of(line), line.blocks,
                                      line.write_pointer, line.live, line.dead});
  }
  Names names(details.paths);
  for (const auto& [band, history] : details.histories) {
    histories[std::to_string(band.value)] = json_of(history, names);
  }
  for (const auto& [band, error] : details.unreadable) {
    unreadable[std::to_string(band.value)] = std::string(describe(error));
  }
  return Json::object({{"block_size", kBlockBytes},
                       {"bands", bands},
                       {"histories", histories},
                       {"unreadable", unreadable},
                       {"names", names.list()}})
      .dump();
}

// Inside of a script element nothing is escaped, and "</script" would end it.
std::string script_of(const std::string& json) {
  std::string safe;
  for (const char c : json) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

}  // namespace

std::string html_of(const PictureTitle& title, const std::string& text,
                    const fs::BandReport& report, const BandDetails& details) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>edistats " +
         markup_of(title.device) + "</title><style>" + std::string(kStyle) +
         "</style></head>\n<body>\n" + "<div id=\"hover\">" + markup_of(title.device) +
         ": point at a bar to see its numbers, click it to see its files</div>\n<div id=\"map\">" +
         svg_of(title, report) + "</div>\n<section id=\"zoom\"></section>\n<pre>\n" +
         markup_of(text) + "</pre>\n<script type=\"application/json\" id=\"data\">" +
         script_of(json_of(report, details)) + "</script>\n<script>" + std::string(kScript) +
         "</script>\n</body>\n</html>\n";
}

}  // namespace lazyfs::tools
