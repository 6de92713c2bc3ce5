//! The directives that choose how the next server is found.

use freerun_conf::SettingsSet;
use freerun_upstream::GroupSettings;

/// What the block says of the method.
pub fn group_settings(_settings: &SettingsSet) -> GroupSettings {
    GroupSettings::default()
}

/// Whether servers after a directive of this name cannot be `backup`; `None`: it does not choose the method.
pub fn refuses_backup(_directive: &str) -> Option<bool> {
    None
}
