//! Deserializes a value that another version of flashfit may have written, ignoring keys that this
//! version does not know, even for types with `deny_unknown_fields`.
//!
//! Limit: the value is buffered as a `serde_json::Value`, so this suits objects, not long files.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error,
    IntoDeserializer, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// For `#[serde(deserialize_with = "…")]`.
///
/// # Errors
/// When the value is not a valid `T` for a reason other than unknown keys.
pub fn known_keys<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    T::deserialize(KnownKeys(Value::deserialize(deserializer)?)).map_err(D::Error::custom)
}

struct KnownKeys(Value);

type JsonError = serde_json::Error;

impl IntoDeserializer<'_, JsonError> for KnownKeys {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for KnownKeys {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(KnownKeys));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(map) => {
                let entries = map.into_iter().map(|(key, value)| (key, KnownKeys(value)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        if let Value::Object(map) = &mut self.0 {
            map.retain(|key, _| fields.contains(&key.as_str()));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.0 {
            Value::String(variant) => visitor.visit_enum(variant.into_deserializer()),
            Value::Object(map) if map.len() == 1 => {
                let (variant, value) = map.into_iter().next().ok_or_else(no_variant)?;
                visitor.visit_enum(Variant { variant, value: KnownKeys(value) })
            }
            _ => Err(no_variant()),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

fn no_variant() -> JsonError {
    JsonError::custom("expected a variant name, or an object with a variant name as its only key")
}

struct Variant {
    variant: String,
    value: KnownKeys,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = JsonError;
    type Variant = KnownKeys;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, KnownKeys), JsonError> {
        let variant: serde::de::value::StringDeserializer<JsonError> =
            self.variant.into_deserializer();
        Ok((seed.deserialize(variant)?, self.value))
    }
}

impl<'de> VariantAccess<'de> for KnownKeys {
    type Error = JsonError;

    fn unit_variant(self) -> Result<(), JsonError> {
        <()>::deserialize(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, JsonError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        number: u32,
        #[serde(default)]
        inner: Option<Box<Strict>>,
        #[serde(default)]
        kinds: Vec<Kind>,
        #[serde(default)]
        named: BTreeMap<String, Strict>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    enum Kind {
        Plain,
        Wrapped(u8),
        Pair(u8, u8),
        Full { size: u64 },
    }

    fn read(value: Value) -> Result<Strict, JsonError> {
        known_keys(value)
    }

    fn plain(number: u32) -> Strict {
        Strict { number, inner: None, kinds: Vec::new(), named: BTreeMap::new() }
    }

    #[test]
    fn unknown_keys_are_ignored_at_every_level() {
        let value = json!({
            "number": 1, "new": [1],
            "inner": {"number": 2, "new": null},
            "kinds": ["plain", {"wrapped": 3}, {"pair": [4, 5]}, {"full": {"size": 6, "new": 0}}],
            "named": {"any": {"number": 7, "new": {}}},
        });
        assert!(serde_json::from_value::<Strict>(value.clone()).is_err(), "strict by default");
        let expected = Strict {
            number: 1,
            inner: Some(Box::new(plain(2))),
            kinds: vec![Kind::Plain, Kind::Wrapped(3), Kind::Pair(4, 5), Kind::Full { size: 6 }],
            named: BTreeMap::from([("any".to_owned(), plain(7))]),
        };
        assert_eq!(read(value).expect("only keys are unknown"), expected);
    }

    #[test]
    fn other_errors_are_still_reported() {
        for value in [
            json!({}),
            json!({"number": "one"}),
            json!({"number": 1, "kinds": ["round"]}),
            json!({"number": 1, "kinds": [{"plain": 1}]}),
            json!({"number": 1, "kinds": [{"pair": [1, 2, 3]}]}),
            json!({"number": 1, "kinds": [{"full": {}}]}),
            json!({"number": 1, "kinds": [{"plain": null, "wrapped": 1}]}),
            json!([]),
        ] {
            assert!(read(value.clone()).is_err(), "{value}");
        }
    }
}
