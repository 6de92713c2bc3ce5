//! The values of a subject's variables that come from `set`, captures and maps. Subjects may share them: a client's
//! request and all its subrequests do, as in nginx.

use std::cell::{Cell, OnceCell, RefCell};

/// The most text that the variables of one request and its subrequests may take. A request that needs more is answered
/// with 500.
pub const MAX_TEXT: usize = 16 << 20;

/// The number of cells in the first chunk of [`CaptureTexts`]; each further chunk has twice as many as the one before.
const FIRST_CHUNK: usize = 8;
/// The largest number of chunks.
const CHUNKS: usize = 17;
/// The largest number of texts.
const MAX_CELLS: usize = FIRST_CHUNK * ((1 << CHUNKS) - 1);

/// The store has no room: [`MAX_TEXT`] is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the variables of the request take more than {} MB", MAX_TEXT >> 20)]
pub struct Full;

/// Texts that stay at their addresses until the last of the requests ends, so that they can be borrowed while others
/// are added.
#[derive(Default)]
struct CaptureTexts {
    first: Chunk,
    count: Cell<usize>,
    bytes: Cell<usize>,
}

/// Room for some texts; nearly always the first chunk is enough.
#[derive(Default)]
struct Chunk {
    cells: OnceCell<Box<[Text]>>,
    next: OnceCell<Box<Chunk>>,
}

/// The cell of one text.
type Text = OnceCell<Box<[u8]>>;

impl CaptureTexts {
    fn place(index: usize) -> (usize, usize) {
        let number = index / FIRST_CHUNK + 1;
        let chunk = number.ilog2() as usize;
        (chunk, index - FIRST_CHUNK * ((1 << chunk) - 1))
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let (number, at) = CaptureTexts::place(index);
        let mut chunk = &self.first;
        for _ in 0..number {
            chunk = chunk.next.get()?;
        }
        chunk.cells.get()?.get(at)?.get().map(|text| &**text)
    }

    fn push(&self, text: Box<[u8]>) -> Result<usize, Full> {
        let index = self.count.get();
        let bytes = self.bytes.get() + text.len();
        if bytes > MAX_TEXT || index >= MAX_CELLS {
            return Err(Full);
        }
        let (number, at) = CaptureTexts::place(index);
        let mut chunk = &self.first;
        for _ in 0..number {
            chunk = chunk.next.get_or_init(Box::default);
        }
        let cells = chunk.cells.get_or_init(|| vec![OnceCell::new(); FIRST_CHUNK << number].into());
        // A cell beyond the count is empty.
        let put = cells[at].set(text);
        debug_assert!(put.is_ok(), "text {index} has another one's place");
        self.bytes.set(bytes);
        self.count.set(index + 1);
        Ok(index)
    }
}

/// The state of a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariableSlot {
    /// The variable has no value yet.
    Unset,
    /// The value is being computed: a use of it now would be a cycle.
    Pending,
    /// The value was computed, and there is none.
    Missing,
    /// The value is the empty text.
    Empty,
    /// The value is a text of the store.
    Text(usize),
    /// The value is a text of the configuration: the entry of the map that matched.
    Entry(u32),
}

/// The store of values.
#[derive(Default)]
pub struct Values {
    slots: RefCell<Vec<VariableSlot>>,
    texts: CaptureTexts,
}

impl Values {
    #[inline]
    pub(crate) fn slot(&self, index: u32) -> VariableSlot {
        self.slots.borrow().get(index as usize).copied().unwrap_or(VariableSlot::Unset)
    }

    pub(crate) fn put(&self, index: u32, slot: VariableSlot) {
        let mut slots = self.slots.borrow_mut();
        let index = index as usize;
        if slots.len() <= index {
            slots.resize(index + 1, VariableSlot::Unset);
        }
        slots[index] = slot;
    }

    /// Gives a value to the variable of a slot.
    ///
    /// # Errors
    /// See [`Full`].
    pub fn set(&self, index: u32, text: &[u8]) -> Result<(), Full> {
        if let VariableSlot::Text(old) = self.slot(index)
            && self.text(old) == text
        {
            return Ok(());
        }
        let slot = if text.is_empty() { VariableSlot::Empty } else { VariableSlot::Text(self.keep(text)?) };
        self.put(index, slot);
        Ok(())
    }

    /// Keeps a text; if it equals the text kept last, that one is used again.
    pub(crate) fn keep(&self, text: &[u8]) -> Result<usize, Full> {
        if let Some(last) = self.texts.count.get().checked_sub(1)
            && self.text(last) == text
        {
            return Ok(last);
        }
        self.texts.push(text.into())
    }

    /// A text that was kept.
    pub(crate) fn text(&self, index: usize) -> &[u8] {
        let text = self.texts.get(index);
        debug_assert!(text.is_some(), "text {index} was never kept");
        text.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_where_they_are_while_others_come() {
        let values = Values::default();
        let first = values.keep(b"first").unwrap();
        let lent = values.text(first);
        let more: Vec<usize> = (0..1000).map(|n: u32| values.keep(n.to_string().as_bytes()).unwrap()).collect();
        assert_eq!(lent, b"first");
        assert_eq!(values.text(more[999]), b"999");
        assert_eq!(values.text(more[7]), b"7");
        assert_eq!(values.keep(b"999").unwrap(), more[999]);
    }

    #[test]
    fn the_last_value_counts_and_the_store_is_bounded() {
        let values = Values::default();
        values.set(3, b"one").unwrap();
        values.set(3, b"").unwrap();
        assert!(values.slot(3) == VariableSlot::Empty && values.slot(9) == VariableSlot::Unset);
        let large = vec![b'x'; MAX_TEXT / 2];
        values.set(0, &large).unwrap();
        values.set(0, &large).unwrap();
        assert_eq!(values.set(1, &vec![b'y'; MAX_TEXT]), Err(Full));
        let most = CaptureTexts::place(MAX_CELLS - 1);
        assert_eq!(most, (CHUNKS - 1, (FIRST_CHUNK << (CHUNKS - 1)) - 1));
    }
}
