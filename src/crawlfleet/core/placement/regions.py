"""Regions: their places and distances, for ISO countries, continents and the regions of clouds.

A name is looked up unchanged (`eu-west-1`), then without its trailing digits, then by its leading
parts (`de-fra-2` is in `de`). A place inside the target (`us-east-1` for `us`, `fr` for `europe`)
has distance zero, since a target names an area. Otherwise the distance is that between the middles,
along the Earth's surface.
"""

from functools import lru_cache
from math import asin, cos, radians, sin, sqrt
from typing import Final, NamedTuple

EARTH_RADIUS_KM: Final = 6371.0088
FARTHEST_KM: Final = 20_038.0
"""Distance of a place that is not known: farther than anything on Earth."""

# Middles of countries in whole degrees (latitude, longitude), by continent.
_COUNTRIES: Final = {
    "africa": """
        ao-12,18 bf13,-2 bi-3,30 bj9,2 bw-22,24 cd-3,24 cf7,21 cg-1,15 ci8,-5 cm6,12 cv16,-24
        dj11,43 dz28,3 eg27,30 eh25,-13 er15,39 et8,38 ga-1,12 gh8,-2 gm13,-16 gn11,-10 gq2,10
        gw12,-15 io-6,72 ke1,38 km-12,44 lr6,-10 ls-30,28 ly25,17 ma32,-5 mg-20,47 ml17,-4
        mr20,-12 mu-20,58 mw-13,34 mz-18,35 na-22,17 ne16,8 ng10,8 re-21,56 rw-2,30 sc-5,56
        sd15,30 sh-16,-6 sl8,-12 sn14,-14 so6,48 ss7,30 st1,7 sz-26,32 td15,19 tf-49,69 tg8,1
        tn34,9 tz-6,35 ug1,32 yt-13,45 za-29,24 zm-15,30 zw-20,30""",
    "antarctica": "aq-90,0 bv-54,3 gs-54,-37 hm-53,73",
    "asia": """
        ae24,54 af33,65 am40,45 az40,48 bd24,90 bh26,51 bn4,115 bt27,90 cc-12,97 cn35,105
        cx-10,106 cy35,33 ge42,44 hk22,114 id-5,120 il31,35 in21,78 iq33,44 ir32,53 jo31,36
        jp36,138 kg41,75 kh13,105 kp40,127 kr37,128 kw29,48 kz48,67 la18,105 lb34,36 lk7,81
        mm22,96 mn46,105 mo22,114 mv3,73 my4,109 np28,84 om21,57 ph13,122 pk30,70 ps32,35
        qa25,51 sa24,45 sg1,104 sy35,38 th15,101 tj39,71 tl-9,126 tm39,60 tr39,35 tw24,121
        uz41,64 vn16,107 ye15,48""",
    "europe": """
        ad42,2 al41,20 at47,14 ax60,20 ba44,18 be51,4 bg43,25 by53,28 ch47,8 cz50,15 de51,10
        dk56,10 ee59,26 es40,-4 fi64,26 fo62,-7 fr46,2 gb54,-2 gg49,-3 gi36,-5 gr39,22 hr45,16
        hu47,19 ie53,-8 im54,-5 is65,-18 it43,12 je49,-2 li47,10 lt56,24 lu50,6 lv57,25 mc44,7
        md47,29 me43,19 mk42,22 mt36,14 nl52,6 no62,10 pl52,20 pt40,-8 ro46,25 rs44,21 ru60,100
        se62,15 si46,15 sj78,18 sk49,20 sm44,12 ua49,32 va42,12""",
    "north-america": """
        ag17,-62 ai18,-63 aw12,-70 bb13,-60 bl18,-63 bm32,-65 bq12,-68 bs24,-76 bz17,-89
        ca60,-95 cr10,-84 cu22,-80 cw12,-69 dm15,-61 do19,-71 gd12,-62 gl72,-40 gp16,-62
        gt15,-90 hn15,-86 ht19,-72 jm18,-77 kn17,-63 ky19,-81 lc14,-61 mf18,-63 mq15,-61
        ms17,-62 mx23,-102 ni13,-85 pa9,-80 pm47,-56 pr18,-66 sv14,-89 sx18,-63 tc22,-72
        tt11,-61 us39,-97 vc13,-61 vg18,-64 vi18,-65""",
    "oceania": """
        as-14,-170 au-27,133 ck-21,-160 fj-18,178 fm7,158 gu13,145 ki1,173 mh9,168 mp15,146
        nc-21,165 nf-29,168 nr-1,167 nu-19,-170 nz-41,174 pf-15,-140 pg-6,147 pn-25,-130
        pw7,134 sb-8,159 tk-9,-172 to-20,-175 tv-8,178 um19,167 vu-16,167 wf-13,-176
        ws-14,-172""",
    "south-america": """
        ar-34,-64 bo-17,-65 br-10,-55 cl-30,-71 co4,-72 ec-2,-78 fk-52,-59 gf4,-53 gy5,-59
        pe-10,-76 py-23,-58 sr4,-56 uy-33,-56 ve8,-66""",
}

# Middles of continents, and the short names that people use for them.
_AREAS: Final = {
    "africa": (2.0, 21.0),
    "antarctica": (-82.0, 0.0),
    "asia": (34.0, 100.0),
    "europe": (50.0, 15.0),
    "north-america": (46.0, -100.0),
    "oceania": (-25.0, 140.0),
    "south-america": (-15.0, -60.0),
}
_ALIASES: Final = {
    "eu": "europe",
    "uk": "gb",
    "usa": "us",
    "ap": "asia",
    "apac": "asia",
    "northamerica": "north-america",
    "southamerica": "south-america",
    "latam": "south-america",
    "australia": "au",
}

# Regions of Amazon, Google, Azure, Alibaba and the like: country, then latitude, longitude.
_CLOUDS: Final = """
    us-east:us,38.9,-77.4 us-east-1:us,38.9,-77.4 us-east-2:us,40,-83 us-west:us,45.8,-119.7
    us-west-1:us,37.4,-122 us-west-2:us,45.8,-119.7 us-central:us,41.3,-95.9
    us-south:us,32.8,-96.8 us-gov-east:us,40,-83 us-gov-west:us,45.8,-119.7
    ca-central:ca,45.5,-73.6 ca-west:ca,51,-114 mx-central:mx,20.6,-100.4 sa-east:br,-23.5,-46.6
    sa-west:cl,-33.4,-70.7 eu-west:ie,53.3,-6.3 eu-west-1:ie,53.3,-6.3 eu-west-2:gb,51.5,-0.1
    eu-west-3:fr,48.9,2.4 eu-central:de,50.1,8.7 eu-central-1:de,50.1,8.7
    eu-central-2:ch,47.4,8.5 eu-north:se,59.3,18.1 eu-south:it,45.5,9.2 eu-south-1:it,45.5,9.2
    eu-south-2:es,41.6,-0.9 af-south:za,-33.9,18.4 me-south:bh,26,50.5 me-central:ae,24.5,54.4
    il-central:il,32.1,34.8 ap-east:hk,22.3,114.2 ap-south:in,19.1,72.9 ap-south-1:in,19.1,72.9
    ap-south-2:in,17.4,78.5 ap-northeast:jp,35.7,139.7 ap-northeast-1:jp,35.7,139.7
    ap-northeast-2:kr,37.6,127 ap-northeast-3:jp,34.7,135.5 ap-southeast:sg,1.3,103.8
    ap-southeast-1:sg,1.3,103.8 ap-southeast-2:au,-33.9,151.2 ap-southeast-3:id,-6.2,106.8
    ap-southeast-4:au,-37.8,145 ap-southeast-5:my,3.1,101.7 ap-southeast-7:th,13.8,100.5
    cn-north:cn,39.9,116.4 cn-northwest:cn,37.5,105.2 cn-east:cn,31.2,121.5
    cn-south:cn,23.1,113.3 cn-southwest:cn,30.6,104.1 cn-beijing:cn,39.9,116.4
    cn-shanghai:cn,31.2,121.5 cn-hangzhou:cn,30.3,120.2 cn-shenzhen:cn,22.5,114.1
    cn-guangzhou:cn,23.1,113.3 cn-chengdu:cn,30.6,104.1 cn-qingdao:cn,36.1,120.4
    cn-zhangjiakou:cn,40.8,114.9 cn-huhehaote:cn,40.8,111.7 cn-hongkong:hk,22.3,114.2
    northamerica-northeast:ca,45.5,-73.6 southamerica-east:br,-23.5,-46.6
    southamerica-west:cl,-33.4,-70.7 europe-west:be,50.4,3.8 europe-west-2:gb,51.5,-0.1
    europe-west-3:de,50.1,8.7 europe-west-4:nl,53.4,6.8 europe-north:fi,60.6,27.2
    europe-central:pl,52.2,21 europe-southwest:es,40.4,-3.7 asia-east:tw,24.1,120.5
    asia-east-2:hk,22.3,114.2 asia-northeast:jp,35.7,139.7 asia-northeast-3:kr,37.6,127
    asia-south:in,19.1,72.9 asia-southeast:sg,1.3,103.8 asia-southeast-2:id,-6.2,106.8
    australia-southeast:au,-33.9,151.2 me-west:il,32.1,34.8 eastus:us,37.4,-79.8
    westus:us,37.8,-122.4 centralus:us,41.6,-93.6 northeurope:ie,53.3,-6.3
    westeurope:nl,52.4,4.9 uksouth:gb,51.5,-0.1 germanywestcentral:de,50.1,8.7
    francecentral:fr,48.9,2.4 eastasia:hk,22.3,114.2 southeastasia:sg,1.3,103.8
    japaneast:jp,35.7,139.7 koreacentral:kr,37.6,127 centralindia:in,18.6,73.9
    brazilsouth:br,-23.5,-46.6 australiaeast:au,-33.9,151.2 canadacentral:ca,43.7,-79.4"""


class GeoPlace(NamedTuple):
    """Point on the map, and the areas that it is or lies in, the smallest first."""

    latitude: float
    longitude: float
    areas: tuple[str, ...]


def locate(name: str) -> GeoPlace | None:
    """Return the place of a region; `None` when the name is not known."""
    parts = name.strip().lower().replace("_", "-").replace(" ", "-").split("-")
    if len(parts[-1]) > 1 and parts[-1][-1].isdigit():
        word = parts[-1].rstrip("0123456789")
        parts[-1:] = [word, parts[-1][len(word) :]] if word else [parts[-1]]
    while parts:
        known = "-".join(parts)
        place = _PLACES.get(_ALIASES.get(known, known))
        if place is not None:
            return place
        parts.pop()
    return None


@lru_cache(maxsize=65_536)
def distance_km(region: str | None, target: str | None) -> float:
    """Return the distance of a region from the target in km: zero inside the target, `FARTHEST_KM`
    when not known."""
    if region is None or target is None:
        return FARTHEST_KM
    if region.strip().lower() == target.strip().lower():
        return 0.0
    here, there = locate(region), locate(target)
    if here is None or there is None:
        return FARTHEST_KM
    if there.areas[0] in here.areas:
        return 0.0
    return haversine_km(here, there)


def haversine_km(a: GeoPlace, b: GeoPlace) -> float:
    """Return the distance of two points along the surface of the Earth, in km."""
    north = radians(b.latitude - a.latitude)
    east = radians(b.longitude - a.longitude)
    height = sin(north / 2) ** 2
    width = cos(radians(a.latitude)) * cos(radians(b.latitude)) * sin(east / 2) ** 2
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(height + width)))


def _all_places() -> dict[str, GeoPlace]:
    places = {area: GeoPlace(*middle, (area,)) for area, middle in _AREAS.items()}
    for area, countries in _COUNTRIES.items():
        for entry in countries.split():
            latitude, longitude = entry[2:].split(",")
            places[entry[:2]] = GeoPlace(float(latitude), float(longitude), (entry[:2], area))
    for entry in _CLOUDS.split():
        name, _, rest = entry.partition(":")
        country, latitude, longitude = rest.split(",")
        areas = (name, *places[country].areas)
        places[name] = GeoPlace(float(latitude), float(longitude), areas)
    return places


_PLACES: Final = _all_places()
