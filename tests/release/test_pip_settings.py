"""The settings of pip on this machine reach a root and the build of the image as they are."""

from tools.roots import pip_variables

#: What ``pip config list`` prints.
LISTING = r"""
:env:.index-url='https://environment.example.org/simple'
global.find-links='\n/srv/wheels\n/srv/more wheels'
global.index-url='https://file.example.org/simple'
global.trusted-host="it's.example.org"
install.user='true'
"""


def test_settings_become_variables_whatever_their_values_contain() -> None:
    variables = pip_variables(LISTING)

    assert variables == {
        "PIP_FIND_LINKS": "\n/srv/wheels\n/srv/more wheels",
        "PIP_INDEX_URL": "https://environment.example.org/simple",
        "PIP_TRUSTED_HOST": "it's.example.org",
    }
