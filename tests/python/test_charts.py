"""Figures: how they are drawn."""

import altair

from perdure.experiments import charts


def test_a_figures_pictures_are_those_of_the_library(tmp_path):
    """Drawn by another way, for it is quicker."""
    rows = altair.InlineData(values=[{"x": "a & b", "y": 1}, {"x": "ü", "y": 2.5}])
    drawn = altair.Chart(rows, title="T").mark_bar().encode(x="x:N", y="y:Q", color="x:N")
    paths = charts.save(drawn, tmp_path / "figures/one")
    whole = charts._with_whole_labels(drawn)
    whole.save(str(tmp_path / "one.svg"))
    whole.save(str(tmp_path / "one.png"), scale_factor=charts.PIXELS_PER_POINT)
    for kind in ("svg", "png"):
        assert paths[kind].read_bytes() == (tmp_path / f"one.{kind}").read_bytes(), kind
