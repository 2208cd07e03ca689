import pytest

from netem.experiments.experiment import Request
from tests.netem.experiments.one_device.folder import make_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("models"))


@pytest.fixture
def request_for(folder):
    """A quick request for some of the folder's drafts, or all."""
    return lambda *drafts: Request(seed=0, quick=True, models=folder, drafts=drafts)
