//! The paths of all log files that a configuration names.

/// The paths of all log files that the configuration names; settings refer to them by index. Lives in the
/// configuration's context.
#[derive(Debug, Default)]
pub struct LogPaths(pub Vec<String>);

impl LogPaths {
    /// The index of a path, added if it is new.
    pub fn index(&mut self, path: &str) -> usize {
        match self.0.iter().position(|known| known == path) {
            Some(index) => index,
            None => {
                self.0.push(path.to_owned());
                self.0.len() - 1
            }
        }
    }
}
