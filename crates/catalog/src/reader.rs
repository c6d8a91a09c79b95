//! Reads TOML values into types, as the deserializer of the crate `toml` does, with the same errors
//! and places. That one compiles what reads a type up to four times: for a table, a date, a value
//! with its place, a list. Here, all of them are one kind of map, which makes the program much
//! smaller.
//! Limits: no dates; integers of at most 64 bits; keys of maps are texts.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, Unexpected, Visitor};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlError {
    message: String,
    span: Option<Range<usize>>,
}

impl TomlError {
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the text.
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }

    fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), span: Some(span) }
    }

    /// With this place, unless it has one.
    fn within(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }
}

impl From<toml::de::Error> for TomlError {
    fn from(error: toml::de::Error) -> Self {
        Self { message: error.message().to_owned(), span: error.span() }
    }
}

impl Display for TomlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TomlError {}

impl de::Error for TomlError {
    fn custom<T: Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

/// Reads a TOML text.
///
/// # Errors
/// The first mistake.
pub fn from_toml<T: de::DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    let table = DeTable::parse(text)?;
    T::deserialize(Reader::of(&table))
}

pub(crate) enum Reader<'t> {
    Value(Spanned<DeValue<'t>>),
    /// A place.
    Number(usize),
}

/// What visitors distinguish.
enum Simple<'t> {
    Text(Cow<'t, str>),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Truth(bool),
    List(List<'t>),
    Map(Entries<'t>),
}

impl<'t> Reader<'t> {
    pub(crate) fn of(table: &Spanned<DeTable<'t>>) -> Self {
        Self::Value(Spanned::new(table.span(), DeValue::Table(table.get_ref().clone())))
    }

    fn span(&self) -> Range<usize> {
        match self {
            Self::Value(value) => value.span(),
            Self::Number(_) => 0..0,
        }
    }

    fn simple(self) -> Result<Simple<'t>, TomlError> {
        let span = self.span();
        let value = match self {
            Self::Value(value) => value.into_inner(),
            Self::Number(number) => return Ok(Simple::Unsigned(number as u64)),
        };
        Ok(match value {
            DeValue::String(text) => Simple::Text(text),
            DeValue::Integer(number) => {
                let (text, radix) = (number.as_str(), number.radix());
                if let Ok(number) = i64::from_str_radix(text, radix) {
                    Simple::Signed(number)
                } else if let Ok(number) = u64::from_str_radix(text, radix) {
                    Simple::Unsigned(number)
                } else {
                    return Err(TomlError::new("integer number overflowed", span));
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(float) if !float.is_infinite() || number.as_str().contains("inf") => {
                    Simple::Float(float)
                }
                _ => return Err(TomlError::new("floating-point number overflowed", span)),
            },
            DeValue::Boolean(truth) => Simple::Truth(truth),
            DeValue::Datetime(_) => return Err(TomlError::new("dates are not supported", span)),
            DeValue::Array(values) => Simple::List(List::of(values)),
            DeValue::Table(table) => Simple::Map(Entries::of(table)),
        })
    }

    /// The name of a variant, and its content.
    fn variant(self) -> Result<Variant<'t>, TomlError> {
        let span = self.span();
        let wrong = |message: &str| Err(TomlError::new(message, span.clone()));
        let Self::Value(value) = self else { return wrong("wanted string or table") };
        match value.into_inner() {
            DeValue::String(name) => Ok(Variant { name: Spanned::new(span, name), content: None }),
            DeValue::Table(table) => match table.len() {
                0 => wrong("wanted exactly 1 element, found 0 elements"),
                1 => {
                    let mut entries = table.into_iter();
                    let (name, content) = entries.next().expect("there is one");
                    Ok(Variant { name, content: Some(content) })
                }
                _ => wrong("wanted exactly 1 element, more than 1 element"),
            },
            _ => wrong("wanted string or table"),
        }
    }
}

impl<'de> de::Deserializer<'de> for Reader<'de> {
    type Error = TomlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TomlError> {
        let span = self.span();
        let read = match self.simple()? {
            Simple::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Simple::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Simple::Signed(number) => visitor.visit_i64(number),
            Simple::Unsigned(number) => visitor.visit_u64(number),
            Simple::Float(number) => visitor.visit_f64(number),
            Simple::Truth(truth) => visitor.visit_bool(truth),
            Simple::List(list) => visitor.visit_seq(list),
            Simple::Map(entries) => visitor.visit_map(entries),
        };
        read.map_err(|error| error.within(&span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TomlError> {
        let span = self.span();
        visitor.visit_some(self).map_err(|error| error.within(&span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        let span = self.span();
        visitor.visit_newtype_struct(self).map_err(|error| error.within(&span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        // What the crate `serde_spanned` calls itself.
        if name != "$__serde_spanned_private_Spanned" {
            return self.deserialize_any(visitor);
        }
        visitor.visit_map(Entries::with_place(self, fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        let span = self.span();
        visitor.visit_enum(self.variant()?).map_err(|error| error.within(&span))
    }

    serde::forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq bytes byte_buf map
        unit ignored_any unit_struct tuple_struct tuple identifier
    }
}

struct List<'t>(std::vec::IntoIter<Spanned<DeValue<'t>>>);

impl<'t> List<'t> {
    fn of(values: DeArray<'t>) -> Self {
        Self(values.into_iter().collect::<Vec<_>>().into_iter())
    }
}

impl<'t> de::SeqAccess<'t> for List<'t> {
    type Error = TomlError;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, TomlError> {
        let Some(value) = self.0.next() else { return Ok(None) };
        let span = value.span();
        seed.deserialize(Reader::Value(value)).map(Some).map_err(|error| error.within(&span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The entries of a table, or a value and where it begins and ends.
struct Entries<'t> {
    rest: std::vec::IntoIter<(Reader<'t>, Reader<'t>)>,
    value: Option<Reader<'t>>,
}

fn name(key: Spanned<Cow<'_, str>>) -> Reader<'_> {
    Reader::Value(Spanned::new(key.span(), DeValue::String(key.into_inner())))
}

impl<'t> Entries<'t> {
    fn of(table: DeTable<'t>) -> Self {
        let entries = table.into_iter().map(|(key, value)| (name(key), Reader::Value(value)));
        Self { rest: entries.collect::<Vec<_>>().into_iter(), value: None }
    }

    fn with_place(value: Reader<'t>, fields: &'static [&'static str]) -> Self {
        let span = value.span();
        let values = [Reader::Number(span.start), Reader::Number(span.end), value];
        let names = fields.iter().map(|field| name(Spanned::new(0..0, Cow::Borrowed(*field))));
        Self { rest: names.zip(values).collect::<Vec<_>>().into_iter(), value: None }
    }
}

impl<'t> de::MapAccess<'t> for Entries<'t> {
    type Error = TomlError;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, TomlError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let span = key.span();
        seed.deserialize(key).map(Some).map_err(|error| error.within(&span))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, TomlError> {
        let value = self.value.take().expect("a key comes before its value");
        let span = value.span();
        seed.deserialize(value).map_err(|error| error.within(&span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Variant<'t> {
    name: Spanned<Cow<'t, str>>,
    content: Option<Spanned<DeValue<'t>>>,
}

impl<'t> de::EnumAccess<'t> for Variant<'t> {
    type Error = TomlError;
    type Variant = Content<'t>;

    fn variant_seed<V: DeserializeSeed<'t>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<'t>), TomlError> {
        let span = self.name.span();
        let read = seed.deserialize(name(self.name)).map_err(|error| error.within(&span))?;
        Ok((read, Content(self.content)))
    }
}

/// The content of a variant; none after a mere name.
struct Content<'t>(Option<Spanned<DeValue<'t>>>);

impl<'t> Content<'t> {
    fn given(self, expected: &str) -> Result<Spanned<DeValue<'t>>, TomlError> {
        self.0.ok_or_else(|| de::Error::invalid_type(Unexpected::UnitVariant, &expected))
    }
}

impl<'t> de::VariantAccess<'t> for Content<'t> {
    type Error = TomlError;

    fn unit_variant(self) -> Result<(), TomlError> {
        let Some(content) = self.0 else { return Ok(()) };
        let message = match content.get_ref() {
            DeValue::Array(values) if values.is_empty() => return Ok(()),
            DeValue::Table(table) if table.is_empty() => return Ok(()),
            DeValue::Array(_) => "expected empty array".to_owned(),
            DeValue::Table(_) => "expected empty table".to_owned(),
            other => format!("expected table, found {}", other.type_str()),
        };
        Err(TomlError::new(message, content.span()))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'t>>(self, seed: T) -> Result<T::Value, TomlError> {
        seed.deserialize(Reader::Value(self.given("newtype variant")?))
    }

    fn tuple_variant<V: Visitor<'t>>(self, len: usize, visitor: V) -> Result<V::Value, TomlError> {
        let content = self.given("tuple variant")?;
        let span = content.span();
        match content.into_inner() {
            DeValue::Array(values) if values.len() == len => visitor.visit_seq(List::of(values)),
            _ => Err(TomlError::new(format!("expected tuple with length {len}"), span)),
        }
    }

    fn struct_variant<V: Visitor<'t>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TomlError> {
        let content = self.given("struct variant")?;
        only(&content, fields)?;
        de::Deserializer::deserialize_any(Reader::Value(content), visitor)
    }
}

/// Other keys than these are a mistake.
fn only(content: &Spanned<DeValue<'_>>, fields: &[&str]) -> Result<(), TomlError> {
    let DeValue::Table(table) = content.get_ref() else { return Ok(()) };
    let keys = table.keys().filter(|key| !fields.contains(&key.get_ref().as_ref()));
    let other: Vec<_> = keys.collect();
    let Some(first) = other.first() else { return Ok(()) };
    let names: Vec<&str> = other.iter().map(|key| key.get_ref().as_ref()).collect();
    let (names, known) = (names.join(", "), fields.join(", "));
    let message = format!("unexpected keys in table: {names}, available keys: {known}");
    Err(TomlError::new(message, first.span()))
}
