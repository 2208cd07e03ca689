"""What every plot must be, whatever it shows: nothing covers data, and text can be read in half the size."""

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from netem.plots.picture import HEADLINE

LEAST_POINTS = 11.0
POINTS_OF_AN_INCH = 72.0
_PIXEL = 1.0


def assert_sound(figure: Figure) -> None:
    FigureCanvasAgg(figure)  # without which each text would be measured anew each time
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= LEAST_POINTS
    headline = [text.get_window_extent() for text in figure.texts if text.get_gid() == HEADLINE]
    assert min(box.x0 for box in headline) >= 0
    assert max(box.x1 for box in headline) <= figure.bbox.x1 + _PIXEL, "the headline fits"
    drawn = [axes for axes in figure.axes if axes.has_data() and axes.get_in_layout()]
    assert all(axes.get_legend() is None for axes in figure.axes), "a legend inside of axes may cover data"
    panels = [axes.get_tightbbox() for axes in drawn]
    assert panels
    _assert_apart(panels)
    legends = [legend.get_window_extent().y1 for legend in figure.legends]
    assert max(legends, default=0) <= min(box.y0 for box in panels) + _PIXEL, "legends are below the data"
    assert max(box.y1 for box in panels) <= min(box.y0 for box in headline) + _PIXEL, "the headline is above the data"
    for axes in drawn:
        _assert_marks_are_whole(axes)
        for labels in (axes.get_yticklabels(), axes.get_xticklabels()):
            if all(label.get_rotation() == 0 for label in labels):
                _assert_apart([label.get_window_extent() for label in labels if label.get_text()])


def _assert_marks_are_whole(axes: Axes) -> None:
    """The middle of no mark is so near to the upper edge that a quarter of it is cut."""
    for line in axes.get_lines():
        if line.get_marker() not in ("", "None", None) and len(line.get_ydata()):
            highest = line.get_transform().transform(line.get_xydata())[:, 1].max()
            radius = line.get_markersize() / 2 * axes.get_figure().dpi / POINTS_OF_AN_INCH
            assert highest + radius / 2 <= axes.bbox.y1, (axes.get_title(), line.get_label())


def _assert_apart(boxes: list[Bbox]) -> None:
    for index, box in enumerate(boxes):
        for other in boxes[index + 1 :]:
            wide = min(box.x1, other.x1) - max(box.x0, other.x0)
            high = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(wide, high) <= _PIXEL, (box, other)
