//! The state that the commands of a page share with the pages that it includes.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::request::Request;

use super::expr::Captures;
use crate::dates;

/// The most bytes that the variables and blocks of one client request may hold.
const MAX_HELD: usize = 1 << 20;
/// The size that a variable or a block counts besides its bytes.
const ENTRY: usize = 64;

/// The variables and blocks that the client's request and all its subrequests share.
#[derive(Default)]
pub struct SharedPage {
    variables: RefCell<Vec<(Vec<u8>, Bytes)>>,
    blocks: RefCell<Vec<(Vec<u8>, Bytes)>>,
    /// The groups of the last expression that matched.
    groups: RefCell<Vec<Vec<u8>>>,
    held: Cell<usize>,
}

/// The error that there are too many variables and blocks, or that they are too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("variables and blocks of more than {MAX_HELD} bytes")]
pub struct Full;

impl SharedPage {
    /// The value of a variable of the page, or of a group of its last expression.
    pub fn variable(&self, name: &[u8]) -> Option<Bytes> {
        if let Some((_, value)) = self.variables.borrow().iter().find(|(known, _)| known == name) {
            return Some(value.clone());
        }
        let [digit @ b'0'..=b'9'] = name else { return None };
        self.groups.borrow().get(usize::from(digit - b'0')).cloned().map(Bytes::from)
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// There is no room.
    pub fn set(&self, name: &[u8], value: Bytes) -> Result<(), Full> {
        let mut variables = self.variables.borrow_mut();
        match variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => {
                self.take(value.len(), old.len())?;
                *old = value;
            }
            None => {
                self.take(ENTRY + name.len() + value.len(), 0)?;
                variables.push((name.to_vec(), value));
            }
        }
        Ok(())
    }

    /// Keeps a block; of several with the same name the first counts.
    ///
    /// # Errors
    /// There is no room.
    pub fn keep_block(&self, name: Vec<u8>, content: Bytes) -> Result<(), Full> {
        self.take(ENTRY + name.len() + content.len(), 0)?;
        self.blocks.borrow_mut().push((name, content));
        Ok(())
    }

    /// The content of a block.
    pub fn block(&self, name: &[u8]) -> Option<Bytes> {
        self.blocks.borrow().iter().find(|(known, _)| known == name).map(|(_, content)| content.clone())
    }

    /// Keeps the groups of an expression that matched, until another one matches; named groups become variables.
    ///
    /// # Errors
    /// There is no room for a named group.
    pub fn keep_captures(&self, captures: Captures) -> Result<(), Full> {
        *self.groups.borrow_mut() = captures.numbered;
        captures.named.into_iter().try_for_each(|(name, value)| self.set(&name, value.into()))
    }

    /// The number of bytes that are still available.
    pub fn room(&self) -> usize {
        MAX_HELD - self.held.get()
    }

    fn take(&self, more: usize, less: usize) -> Result<(), Full> {
        let held = self.held.get() + more - less;
        if held > MAX_HELD {
            return Err(Full);
        }
        self.held.set(held);
        Ok(())
    }
}

/// The value of `config timefmt`, for one page.
#[derive(Default)]
pub struct TimeFormat(RefCell<Option<String>>);

impl TimeFormat {
    /// Sets the format.
    pub fn set(&self, format: &[u8]) {
        *self.0.borrow_mut() = Some(text_of(format).into_owned());
    }

    /// Calls `use_it` with the current format of a request.
    pub fn with<T>(request: &Request, use_it: impl FnOnce(&str) -> T) -> T {
        match request.own.find::<TimeFormat>() {
            Some(format) => use_it(format.0.borrow().as_deref().unwrap_or(dates::DEFAULT)),
            None => use_it(dates::DEFAULT),
        }
    }
}
