// Drawing of the decision surface, its contour lines and the points.
// Values are given on an n x n grid, rows from top to bottom, and interpolated in between.

// Colour-blind safe colours of Okabe and Ito; the markers of the classes differ as well.
export const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B"];
const RGB = COLOURS.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
const STRONGEST = 0.42; // largest share of a class's colour in the background
const WEAKEST = 0.1;

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
function floatsOf(text) {
  const bytes = bytesOf(text), view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

function interpolated(values, n, pixels) {
  const out = new Float32Array(pixels * pixels);
  const scale = (n - 1) / (pixels - 1);
  for (let row = 0; row < pixels; row++) {
    const y = row * scale, y0 = Math.min(Math.floor(y), n - 2), v = y - y0;
    for (let column = 0; column < pixels; column++) {
      const x = column * scale, x0 = Math.min(Math.floor(x), n - 2), u = x - x0;
      const at = y0 * n + x0;
      const top = values[at] * (1 - u) + values[at + 1] * u;
      const bottom = values[at + n] * (1 - u) + values[at + n + 1] * u;
      out[row * pixels + column] = top * (1 - v) + bottom * v;
    }
  }
  return out;
}

// Decision value at which the background reaches its full colour: about the margin, or the third
// quartile of the absolute values if that is smaller.
function unitOf(values) {
  const sizes = Float32Array.from(values, Math.abs).sort();
  return Math.min(Math.max(sizes[Math.floor(0.75 * (sizes.length - 1))], 1e-6), 1.5);
}

// Convert the server's response to a background image and the contour lines on top of it.
export function readLandscape({ landscape, classes }, sides, plane, levels) {
  const pixels = sides.pixels;
  if (landscape.values) {
    const values = floatsOf(landscape.values), fine = interpolated(values, sides.grid, pixels);
    const unit = unitOf(values);
    const sheet = paint(pixels, plane, (i) => classes[fine[i] > 0 ? 1 : 0], (i) => Math.min(1, Math.abs(fine[i]) / unit));
    const lines = levels.map((level) => ({ level, n: sides.grid, paths: levelLine(values, sides.grid, level) }));
    return { sheet, lines };
  }
  const winner = bytesOf(landscape.winner), lead = bytesOf(landscape.lead);
  const sheet = paint(pixels, plane, (i) => classes[winner[i]], (i) => lead[i] / 255);
  const own = new Float32Array(winner.length);
  const lines = classes.map((_, k) => {
    // Its zero contour is the boundary of class k; the 1 keeps the sign where the lead is 0.
    for (let i = 0; i < own.length; i++) own[i] = winner[i] === k ? 1 + lead[i] : -1 - lead[i];
    return { level: 0, n: pixels, paths: levelLine(own, pixels, 0) };
  });
  return { sheet, lines };
}

function paint(pixels, plane, classAt, leadAt) {
  const image = new ImageData(pixels, pixels), data = image.data;
  for (let i = 0; i < pixels * pixels; i++) {
    const colour = RGB[classAt(i)], share = WEAKEST + (STRONGEST - WEAKEST) * leadAt(i);
    for (let c = 0; c < 3; c++) data[4 * i + c] = plane[c] * (1 - share) + colour[c] * share;
    data[4 * i + 3] = 255;
  }
  const sheet = document.createElement("canvas");
  sheet.width = sheet.height = pixels;
  sheet.getContext("2d").putImageData(image, 0, 0);
  return sheet;
}

// Marching squares: a contour line as paths of points on the edges of the grid, in grid coordinates.
// The edge from grid point i to the right has the index 2i, the edge downwards 2i + 1.
function levelLine(values, n, level) {
  const places = new Map(), joined = new Map();
  const cross = (edge, a, b) => {
    const t = (level - a) / (b - a), i = edge >> 1, c = i % n, r = Math.floor(i / n);
    if (!places.has(edge)) places.set(edge, edge % 2 ? [c, r + t] : [c + t, r]);
    return edge;
  };
  const join = (from, to) => { if (joined.has(from)) joined.get(from).push(to); else joined.set(from, [to]); };
  for (let r = 0; r < n - 1; r++) {
    for (let c = 0; c < n - 1; c++) {
      const i = r * n + c;
      const a = values[i], b = values[i + 1], d = values[i + n], e = values[i + n + 1];
      const above = (a > level) + (b > level) + (d > level) + (e > level);
      if (above === 0 || above === 4) continue; // the common case
      const crossed = [];
      if ((a > level) !== (b > level)) crossed.push(cross(2 * i, a, b));
      if ((b > level) !== (e > level)) crossed.push(cross(2 * (i + 1) + 1, b, e));
      if ((d > level) !== (e > level)) crossed.push(cross(2 * (i + n), d, e));
      if ((a > level) !== (d > level)) crossed.push(cross(2 * i + 1, a, d));
      // At a saddle (four crossings) the pairing is ambiguous; either choice is valid.
      for (let k = 0; k + 1 < crossed.length; k += 2) {
        join(crossed[k], crossed[k + 1]);
        join(crossed[k + 1], crossed[k]);
      }
    }
  }
  return followed(places, joined);
}

// Join the segments to whole paths, for continuous dashes: open paths first, then closed ones.
function followed(places, joined) {
  const follow = (edge) => {
    const path = [places.get(edge)];
    for (let next = joined.get(edge).pop(); next !== undefined; next = joined.get(edge).pop()) {
      const back = joined.get(next);
      back.splice(back.indexOf(edge), 1);
      path.push(places.get(next));
      edge = next;
    }
    return path;
  };
  const paths = [];
  for (const [edge, others] of joined) if (others.length === 1) paths.push(follow(edge));
  for (const [edge, others] of joined) while (others.length) paths.push(follow(edge));
  return paths;
}

export function strokePaths(context, paths, n, size) {
  const scale = size / (n - 1);
  context.beginPath();
  for (const path of paths) {
    path.forEach(([x, y], i) => (i ? context.lineTo(x * scale, y * scale) : context.moveTo(x * scale, y * scale)));
  }
  context.stroke();
}

// Marker of class k: circle, square, triangle, diamond, pentagon.
export function markPath(k, x, y, r) {
  const path = new Path2D();
  if (k === 0) {
    path.arc(x, y, r, 0, 2 * Math.PI);
    return path;
  }
  const [corners, turn, size] = [[], [4, Math.PI / 4, 1.22], [3, -Math.PI / 2, 1.35], [4, 0, 1.3], [5, -Math.PI / 2, 1.2]][k];
  for (let i = 0; i < corners; i++) {
    const angle = turn + (2 * Math.PI * i) / corners;
    const [px, py] = [x + size * r * Math.cos(angle), y + size * r * Math.sin(angle)];
    if (i === 0) path.moveTo(px, py); else path.lineTo(px, py);
  }
  path.closePath();
  return path;
}
