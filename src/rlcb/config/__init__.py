"""One typed configuration: defaults < YAML file < command line flags."""

from rlcb.config.fit import settings_that_do_not_fit
from rlcb.config.load import Override, load_config
from rlcb.config.tree import Config, flag_name, leaves

__all__ = ["Config", "Override", "flag_name", "leaves", "load_config", "settings_that_do_not_fit"]
