// Draws the land of the Earth once, ahead of time: the page carries one short SVG path and no map
// library. Points are rounded to whole units and small islands are left out.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { geoArea, geoNaturalEarth1, geoPath } from "d3-geo";
import { feature } from "topojson-client";
import { presimplify, simplify } from "topojson-simplify";

const WIDTH = 960;
const MARGIN = 6;
const LEAST_AREA = 0.0006; // of the unit sphere
const LEAST_WEIGHT = 0.35; // square degrees

const atlas = createRequire(import.meta.url).resolve("world-atlas/land-110m.json");
const topology = JSON.parse(readFileSync(atlas, "utf8"));
const simple = simplify(presimplify(topology), LEAST_WEIGHT);
const land = feature(simple, simple.objects.land);
const polygons = land.features
  .flatMap(({ geometry }) =>
    geometry.type === "MultiPolygon" ? geometry.coordinates : [geometry.coordinates],
  )
  .filter((coordinates) => geoArea({ type: "Polygon", coordinates }) > LEAST_AREA)
  // Antarctica takes a sixth of the picture, and no node stands there.
  .filter((coordinates) => coordinates[0].some(([, latitude]) => latitude > -60));
const shape = { type: "MultiPolygon", coordinates: polygons };
const projection = geoNaturalEarth1().fitWidth(WIDTH - 2 * MARGIN, shape);
const [left, top] = geoPath(projection).bounds(shape)[0];
const [x, y] = projection.translate();
projection.translate([Math.round(x - left) + MARGIN, Math.round(y - top) + MARGIN]);
const height = Math.ceil(geoPath(projection).bounds(shape)[1][1]) + MARGIN;
const path = geoPath(projection).digits(0);
const drawn = path(shape);
const text = `// Made by scripts/land.mjs from world-atlas (Natural Earth, public domain). Do not edit.
export const MAP_WIDTH = ${WIDTH};
export const MAP_HEIGHT = ${height};
export const MAP_SCALE = ${projection.scale().toFixed(3)};
export const MAP_MIDDLE: [number, number] = [${projection.translate().join(", ")}];
export const LAND =
  "${drawn}";
`;
writeFileSync(new URL("../src/generated/land.ts", import.meta.url), text);
