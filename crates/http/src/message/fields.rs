//! The further fields of a response, in the order they are sent.

use std::iter::Chain;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::Field;

/// The further fields of a response. The first ones may have been prepared, together with their text.
#[derive(Debug, Default)]
pub struct Fields {
    made: Option<Arc<PreparedFields>>,
    /// Whether `Accept-Ranges: bytes` follows the prepared fields.
    accepts_ranges: bool,
    /// All other fields.
    list: SmallVec<[Field; 4]>,
}

static ACCEPT_RANGES: [Field; 1] = [(Bytes::from_static(b"Accept-Ranges"), Bytes::from_static(b"bytes"))];

/// An iterator over all fields, in their order.
pub type FieldsIter<'f> = Chain<Chain<slice::Iter<'f, Field>, slice::Iter<'f, Field>>, slice::Iter<'f, Field>>;

/// The value of a field of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'f> {
    /// The value is this text.
    Text(&'f Bytes),
    /// The value is the response's own member: the field only moves it from its usual place to this one.
    OfResponse(Member),
}

/// Members of a response that are sent as fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// `ETag`.
    Etag,
    /// `Last-Modified`.
    LastModified,
    /// `Location`.
    Location,
}

/// The value in the list that stands for the value of a response's own member. No real value has a NUL.
const OF_RESPONSE: Bytes = Bytes::from_static(b"\0");

impl FieldValue<'_> {
    /// The value of a field.
    #[inline]
    pub fn of((name, value): &Field) -> FieldValue<'_> {
        if *value != OF_RESPONSE {
            return FieldValue::Text(value);
        }
        FieldValue::OfResponse(match name.len() {
            4 => Member::Etag,
            8 => Member::Location,
            _ => Member::LastModified,
        })
    }
}

/// Prepared fields that many responses begin with.
#[derive(Debug)]
pub struct PreparedFields {
    /// The fields.
    pub fields: Box<[Field]>,
    /// The text of the fields, including those [of the response](FieldValue::OfResponse), for a response with this
    /// `ETag` and `Last-Modified`.
    pub text: Box<[u8]>,
    /// The `ETag` of such a response.
    pub etag: Option<Bytes>,
    /// The `Last-Modified` of such a response.
    pub last_modified: Option<i64>,
}

impl Fields {
    /// Fields that begin with these prepared ones, and have no others so far.
    pub fn begin(made: Arc<PreparedFields>) -> Fields {
        Fields { made: Some(made), ..Fields::default() }
    }

    /// Adds `Accept-Ranges: bytes` at the end.
    pub fn accept_ranges(&mut self) {
        if self.list.is_empty() && !self.accepts_ranges {
            self.accepts_ranges = true;
        } else {
            self.list.extend(ACCEPT_RANGES.iter().cloned());
        }
    }

    /// The text of the first fields, in two parts, if it was made for a response with this `ETag` and `Last-Modified`,
    /// and the fields that follow them.
    pub fn made_for(&self, etag: Option<&Bytes>, last_modified: Option<i64>) -> Option<([&[u8]; 2], &[Field])> {
        let offer: &[u8] = if self.accepts_ranges { b"Accept-Ranges: bytes\r\n" } else { b"" };
        match &self.made {
            Some(made) => {
                let fits = made.last_modified == last_modified && made.etag.as_ref() == etag;
                fits.then_some(([&made.text, offer], &self.list))
            }
            None => self.accepts_ranges.then_some(([b"", offer], &self.list)),
        }
    }

    /// The fields that are not in the list.
    fn first(&self) -> Chain<slice::Iter<'_, Field>, slice::Iter<'_, Field>> {
        let made = self.made.as_ref().map_or(&[][..], |made| &made.fields);
        let offer = if self.accepts_ranges { &ACCEPT_RANGES[..] } else { &[] };
        made.iter().chain(offer)
    }

    /// An iterator over all fields.
    pub fn iter(&self) -> FieldsIter<'_> {
        self.first().chain(&self.list)
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.made.as_ref().map_or(0, |made| made.fields.len()) + usize::from(self.accepts_ranges) + self.list.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a field at the end.
    pub fn push(&mut self, field: Field) {
        self.list.push(field);
    }

    /// Adds a field at the end whose value is the response's own member; `name` is the member's name as another server
    /// has written it.
    pub fn push_own(&mut self, name: Bytes) {
        self.list.push((name, OF_RESPONSE));
    }

    /// Keeps the fields for which `keep` is true; it may change them.
    pub fn retain(&mut self, keep: impl FnMut(&mut Field) -> bool) {
        self.list().retain(keep);
    }

    /// Takes all fields out.
    pub fn take(&mut self) -> impl Iterator<Item = Field> + use<> {
        std::mem::take(self.list()).into_iter()
    }

    /// The list of fields, after all prepared fields have been moved into it.
    fn list(&mut self) -> &mut SmallVec<[Field; 4]> {
        if self.made.is_some() || self.accepts_ranges {
            let list = self.iter().cloned().collect();
            *self = Fields { list, ..Fields::default() };
        }
        &mut self.list
    }
}

impl Extend<Field> for Fields {
    fn extend<T: IntoIterator<Item = Field>>(&mut self, fields: T) {
        self.list.extend(fields);
    }
}

impl<'f> IntoIterator for &'f Fields {
    type Item = &'f Field;
    type IntoIter = FieldsIter<'f>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &'static str, value: &'static str) -> Field {
        (name.into(), value.into())
    }

    fn made() -> Arc<PreparedFields> {
        let fields = Box::new([field("a", "1"), field("b", "2")]);
        Arc::new(PreparedFields {
            fields,
            text: (*b"a: 1\r\nb: 2\r\n").into(),
            etag: Some("\"x\"".into()),
            last_modified: Some(7),
        })
    }

    fn names(fields: &Fields) -> Vec<&[u8]> {
        fields.iter().map(|(name, _)| &name[..]).collect()
    }

    #[test]
    fn what_was_made_stays_before_what_is_added() {
        let mut fields = Fields::begin(made());
        fields.push(field("c", "3"));
        fields.extend([field("d", "4")]);
        assert_eq!((names(&fields), fields.len()), (vec![&b"a"[..], b"b", b"c", b"d"], 4));
        let (text, added) = fields.made_for(Some(&"\"x\"".into()), Some(7)).unwrap();
        assert_eq!((text.concat(), added), (b"a: 1\r\nb: 2\r\n".to_vec(), &[field("c", "3"), field("d", "4")][..]));
        assert!(fields.made_for(None, Some(7)).is_none());
        assert!(fields.made_for(Some(&"W/\"x\"".into()), Some(7)).is_none());
        assert!(fields.made_for(Some(&"\"x\"".into()), None).is_none());
    }

    #[test]
    fn ranges_are_offered_in_their_place() {
        let mut fields = Fields::default();
        fields.accept_ranges();
        fields.push(field("c", "3"));
        let (text, added) = fields.made_for(Some(&"\"x\"".into()), None).unwrap();
        assert_eq!((text.concat(), added), (b"Accept-Ranges: bytes\r\n".to_vec(), &[field("c", "3")][..]));
        fields.retain(|_| true);
        let offer = field("Accept-Ranges", "bytes");
        assert_eq!(fields.take().collect::<Vec<_>>(), [offer.clone(), field("c", "3")]);
        fields.push(field("a", "1"));
        fields.accept_ranges();
        assert!(fields.made_for(None, None).is_none());
        assert_eq!(fields.take().collect::<Vec<_>>(), [field("a", "1"), offer]);
        let mut fields = Fields::begin(made());
        fields.accept_ranges();
        let (text, _) = fields.made_for(Some(&"\"x\"".into()), Some(7)).unwrap();
        assert_eq!(text.concat(), b"a: 1\r\nb: 2\r\nAccept-Ranges: bytes\r\n");
        assert_eq!((names(&fields), fields.len()), (vec![&b"a"[..], b"b", b"Accept-Ranges"], 3));
    }

    #[test]
    fn a_change_leaves_no_text() {
        let mut fields = Fields::begin(made());
        fields.push(field("c", "3"));
        fields.retain(|(name, _)| name != "b");
        assert_eq!(names(&fields), [b"a", b"c"]);
        assert!(fields.made_for(Some(&"\"x\"".into()), Some(7)).is_none());
        let mut fields = Fields::begin(made());
        assert_eq!(fields.take().collect::<Vec<_>>(), [field("a", "1"), field("b", "2")]);
        assert!(fields.is_empty() && fields.made_for(Some(&"\"x\"".into()), Some(7)).is_none());
    }
}
