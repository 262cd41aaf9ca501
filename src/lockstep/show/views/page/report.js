// The views of a report's file: each block of data that the file holds is drawn above what it replaces.

import { space } from "./space.js";
import { timeline } from "./timeline.js";

for (const [kind, draw] of Object.entries({ space, timeline })) {
  const data = document.getElementById(`${kind}-data`), place = document.getElementById(`${kind}-view`);
  if (data && place && "DecompressionStream" in window) {
    place.hidden = false;
    draw(place, JSON.parse(data.textContent)).then((made) => (place.lockstep = made));
  }
}
