//! The fields that a record has, from its type alone: nobody writes them down twice.
//!
//! Always true: every field of every record that is reached is named, those of what lists, options and
//! maps hold included, and what every variant carries. A type is asked to decode itself from an answer
//! that has one of everything, once for each variant that has not been given yet.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

/// The name of a field: those on the way to it, and its own.
pub(super) type Names = Vec<&'static str>;

/// The fields of a type, in the order in which they are saved, each after `before`.
pub(super) fn of<T: DeserializeOwned>(before: &[&'static str]) -> Vec<Names> {
    let mut survey = Survey::default();
    loop {
        survey.unfinished = 0;
        // What refuses an answer of zeros still was asked up to there.
        let _ = T::deserialize(Asked {
            survey: &mut survey,
            at: before.to_vec(),
            is_key: false,
        });
        if survey.unfinished == 0 {
            return survey.found;
        }
    }
}

#[derive(Default)]
struct Survey {
    found: Vec<Names>,
    /// The variant that each choice is at.
    variants: BTreeMap<Names, usize>,
    /// Choices that have more variants than were given so far.
    unfinished: usize,
}

impl Survey {
    fn find(&mut self, names: Names) {
        if !self.found.contains(&names) {
            self.found.push(names);
        }
    }
}

/// A deserializer that asks what is wanted, and gives one of it.
struct Asked<'s> {
    survey: &'s mut Survey,
    at: Names,
    /// Keys of maps cannot be forgotten one by one.
    is_key: bool,
}

/// Nothing goes wrong here, but a type may refuse.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("refused")
    }
}

impl std::error::Error for Refused {}

impl Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl Asked<'_> {
    fn inner(&mut self) -> Asked<'_> {
        Asked {
            survey: self.survey,
            at: self.at.clone(),
            is_key: self.is_key,
        }
    }

    fn below(&mut self, name: &'static str) -> Asked<'_> {
        let mut inner = self.inner();
        inner.at.push(name);
        if !inner.is_key {
            inner.survey.find(inner.at.clone());
        }
        inner
    }
}

macro_rules! plain {
    ($($method:ident => $visit:ident($($value:expr)?)),*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Refused;

    plain! {
        deserialize_bool => visit_bool(false), deserialize_char => visit_char('\0'),
        deserialize_i8 => visit_i8(0), deserialize_i16 => visit_i16(0),
        deserialize_i32 => visit_i32(0), deserialize_i64 => visit_i64(0),
        deserialize_u8 => visit_u8(0), deserialize_u16 => visit_u16(0),
        deserialize_u32 => visit_u32(0), deserialize_u64 => visit_u64(0),
        deserialize_f32 => visit_f32(0.0), deserialize_f64 => visit_f64(0.0),
        deserialize_str => visit_borrowed_str(""), deserialize_string => visit_borrowed_str(""),
        deserialize_bytes => visit_borrowed_bytes(b""),
        deserialize_byte_buf => visit_borrowed_bytes(b""),
        deserialize_unit => visit_unit(), deserialize_any => visit_unit(),
        deserialize_ignored_any => visit_unit(), deserialize_identifier => visit_borrowed_str("")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_tuple(1, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        mut self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let left = length;
        let asked = self.inner();
        visitor.visit_seq(Several { asked, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let asked = self.inner();
        visitor.visit_map(Several { asked, left: 1 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let asked = self.inner();
        visitor.visit_seq(Fields { asked, names })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let mut place = self.at.clone();
        // A key's choices are others than those of what it leads to.
        place.extend(self.is_key.then_some("key"));
        let chosen = *self.survey.variants.entry(place.clone()).or_default();
        let before = self.survey.unfinished;
        let asked = self.inner();
        let value = visitor.visit_enum(Choice {
            asked,
            variant: variants[chosen],
        });
        // The next one's turn comes when all that this one carries was asked for.
        if self.survey.unfinished == before && chosen + 1 < variants.len() {
            self.survey.variants.insert(place, chosen + 1);
            self.survey.unfinished += 1;
        }
        value
    }
}

/// So many of a kind; for a map, a key and a value for each.
struct Several<'s> {
    asked: Asked<'s>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Several<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.asked.inner()).map(Some)
    }
}

impl<'de> MapAccess<'de> for Several<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut key = self.asked.inner();
        key.is_key = true;
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        seed.deserialize(self.asked.inner())
    }
}

/// The fields of a record.
struct Fields<'s> {
    asked: Asked<'s>,
    names: &'static [&'static str],
}

impl<'de> SeqAccess<'de> for Fields<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        let Some((name, rest)) = self.names.split_first() else {
            return Ok(None);
        };
        self.names = rest;
        seed.deserialize(self.asked.below(name)).map(Some)
    }
}

/// A variant.
struct Choice<'s> {
    asked: Asked<'s>,
    variant: &'static str,
}

impl<'de, 's> EnumAccess<'de> for Choice<'s> {
    type Error = Refused;
    type Variant = Choice<'s>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), Refused> {
        let name: BorrowedStrDeserializer<'_, Refused> = BorrowedStrDeserializer::new(self.variant);
        let name = seed.deserialize(name)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        mut self,
        seed: T,
    ) -> Result<T::Value, Refused> {
        seed.deserialize(self.asked.below(self.variant))
    }

    fn tuple_variant<V: Visitor<'de>>(
        mut self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.asked
            .below(self.variant)
            .deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        (self.asked.below(self.variant)).deserialize_struct(self.variant, fields, visitor)
    }
}
