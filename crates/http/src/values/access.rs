//! Permissions of files that are made for requests: `dav_access`, `proxy_store_access`.

use freerun_conf::{Cx, Node, Problem, Shape, Value};

/// The permissions of files; folders that may be read may also be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// The permissions of a file.
    pub fn of_files(self) -> u32 {
        self.0
    }

    /// The permissions of a folder.
    pub fn of_folders(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }
}

impl Value for Access {
    const SHAPE: Shape = Shape::between(1, 3, "user:rights [group:rights] [all:rights]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Access, Problem> {
        let mut access = 0o600;
        for word in &directive.args {
            let invalid = || Problem::new(format!("invalid value \"{}\"", word.text)).at(word.place);
            let (who, rights) = word.text.split_once(':').ok_or_else(invalid)?;
            let shift = match who {
                "user" => {
                    access &= 0o077;
                    6
                }
                "group" => 3,
                "all" => 0,
                _ => return Err(invalid()),
            };
            access |= match rights {
                "rw" => 0o6,
                "r" => 0o4,
                _ => return Err(invalid()),
            } << shift;
        }
        Ok(Access(access))
    }
}
