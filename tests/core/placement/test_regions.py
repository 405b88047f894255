import pytest

from crawlfleet.core.placement.regions import _PLACES, FARTHEST_KM, distance_km, locate


def test_every_country_is_known() -> None:
    countries = [name for name in _PLACES if len(name) == 2]
    assert len(countries) == 249
    for name, place in _PLACES.items():
        assert -90 <= place.latitude <= 90, name
        assert -180 <= place.longitude <= 180, name


@pytest.mark.parametrize(
    ("region", "target", "least_km", "most_km"),
    [
        ("us-east-1", "us", 0, 0),
        ("fr", "eu", 0, 0),
        ("cn-north", "Asia", 0, 0),
        ("europe-west1", "be", 0, 0),
        ("eu-west-1", "eu-west-2", 400, 550),
        ("us-east-1", "us-west-1", 3500, 4100),
        ("nz", "es", 19000, 20015),
        ("jp", "us-west-2", 7000, 9000),
        ("fj", "ws", 800, 1500),
    ],
)
def test_distances_are_real(region: str, target: str, least_km: float, most_km: float) -> None:
    assert least_km <= distance_km(region, target) <= most_km
    assert distance_km(region, target) < FARTHEST_KM


@pytest.mark.parametrize(
    ("name", "country"),
    [
        ("us-east-1", "us"),
        ("US_EAST_1", "us"),
        ("us-east-9", "us"),
        ("de-fra1", "de"),
        ("UK", "gb"),
        ("sa-east-1", "br"),
        ("sa", "sa"),
        ("westeurope", "nl"),
        ("cn-hangzhou", "cn"),
        ("asia-east2", "hk"),
    ],
)
def test_the_spellings_of_clouds_and_countries_are_found(name: str, country: str) -> None:
    place = locate(name)
    assert place is not None
    assert country in place.areas


def test_a_neighbouring_country_is_farther_than_anywhere_inside_of_the_target() -> None:
    assert distance_km("us-west-1", "us") < distance_km("mx", "us")


def test_a_name_that_nobody_knows_is_far_from_all_but_itself() -> None:
    assert locate("atlantis") is None
    assert distance_km("atlantis", "us") == FARTHEST_KM
    assert distance_km(None, "us") == FARTHEST_KM
    assert distance_km("Atlantis", "atlantis") == 0
