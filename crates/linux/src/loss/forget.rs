//! Serialising everything but one field, which stands there as if nothing had ever been put in it.
//!
//! Always true: the result has the shape of the whole, so that it decodes. Numbers are 0, flags are
//! false, options, texts, lists and maps are empty; a record is forgotten field by field, and so is what
//! a variant carries; a variant that carries nothing becomes the first one. Keys of maps are kept: an
//! entry is forgotten with its map, or in what it holds.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// What becomes of a value.
#[derive(Clone, Copy)]
pub(super) enum Fate<'a> {
    Kept,
    Forgotten,
    /// The field at the end of these names is forgotten, and the rest is kept.
    Without(&'a [&'static str]),
}

impl Fate<'_> {
    /// Of a field, or of what a variant carries.
    fn of(self, name: &str) -> Self {
        match self {
            Self::Without([last]) if *last == name => Self::Forgotten,
            Self::Without([first, rest @ ..]) if *first == name => Self::Without(rest),
            Self::Without(_) => Self::Kept,
            same => same,
        }
    }

    fn is_forgotten(self) -> bool {
        matches!(self, Self::Forgotten)
    }
}

/// A value with its fate.
pub(super) struct Fated<'a, T: ?Sized>(pub &'a T, pub Fate<'a>);

impl<T: Serialize + ?Sized> Serialize for Fated<'_, T> {
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        let fate = self.1;
        self.0.serialize(Forgetful { inner, fate })
    }
}

/// A serializer, or a part of one, that forgets.
struct Forgetful<'a, I> {
    inner: I,
    fate: Fate<'a>,
}

impl<'a, S: Serializer> Forgetful<'a, S> {
    fn over<I>(fate: Fate<'a>, inner: Result<I, S::Error>) -> Result<Forgetful<'a, I>, S::Error> {
        inner.map(|inner| Forgetful { inner, fate })
    }
}

macro_rules! plain {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<Self::Ok, Self::Error> {
            let forgotten = self.fate.is_forgotten();
            self.inner.$method(if forgotten { Default::default() } else { value })
        })*
    };
}

impl<'a, S: Serializer> Serializer for Forgetful<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Forgetful<'a, S::SerializeSeq>;
    type SerializeTuple = Forgetful<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Forgetful<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Forgetful<'a, S::SerializeTupleVariant>;
    type SerializeMap = Forgetful<'a, S::SerializeMap>;
    type SerializeStruct = Forgetful<'a, S::SerializeStruct>;
    type SerializeStructVariant = Forgetful<'a, S::SerializeStructVariant>;

    plain! {
        serialize_bool: bool, serialize_char: char,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_f32: f32, serialize_f64: f64, serialize_str: &str, serialize_bytes: &[u8]
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        if self.fate.is_forgotten() {
            return self.inner.serialize_none();
        }
        self.inner.serialize_some(&Fated(value, self.fate))
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_struct(name)
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        let index = if self.fate.is_forgotten() { 0 } else { index };
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = Fated(value, self.fate);
        self.inner.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = Fated(value, self.fate.of(variant));
        (self.inner).serialize_newtype_variant(name, index, variant, &value)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        let forgotten = self.fate.is_forgotten();
        let length = if forgotten { Some(0) } else { length };
        Self::over(self.fate, self.inner.serialize_seq(length))
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, S::Error> {
        Self::over(self.fate, self.inner.serialize_tuple(length))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        let inner = self.inner.serialize_tuple_struct(name, length);
        Self::over(self.fate, inner)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let inner = (self.inner).serialize_tuple_variant(name, index, variant, length);
        Self::over(self.fate.of(variant), inner)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        let forgotten = self.fate.is_forgotten();
        let length = if forgotten { Some(0) } else { length };
        Self::over(self.fate, self.inner.serialize_map(length))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        Self::over(self.fate, self.inner.serialize_struct(name, length))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let inner = (self.inner).serialize_struct_variant(name, index, variant, length);
        Self::over(self.fate.of(variant), inner)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

impl<I: SerializeSeq> SerializeSeq for Forgetful<'_, I> {
    type Ok = I::Ok;
    type Error = I::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), I::Error> {
        if self.fate.is_forgotten() {
            return Ok(());
        }
        self.inner.serialize_element(&Fated(value, self.fate))
    }

    fn end(self) -> Result<I::Ok, I::Error> {
        self.inner.end()
    }
}

impl<I: SerializeMap> SerializeMap for Forgetful<'_, I> {
    type Ok = I::Ok;
    type Error = I::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), I::Error> {
        if self.fate.is_forgotten() {
            return Ok(());
        }
        self.inner.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), I::Error> {
        if self.fate.is_forgotten() {
            return Ok(());
        }
        self.inner.serialize_value(&Fated(value, self.fate))
    }

    fn end(self) -> Result<I::Ok, I::Error> {
        self.inner.end()
    }
}

/// Places by number: they share the fate of the whole.
macro_rules! numbered {
    ($($part:ident: $method:ident),*) => {
        $(impl<I: $part> $part for Forgetful<'_, I> {
            type Ok = I::Ok;
            type Error = I::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), I::Error> {
                self.inner.$method(&Fated(value, self.fate))
            }

            fn end(self) -> Result<I::Ok, I::Error> {
                self.inner.end()
            }
        })*
    };
}

numbered! {
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
}

/// Places by name.
macro_rules! named {
    ($($part:ident),*) => {
        $(impl<I: $part> $part for Forgetful<'_, I> {
            type Ok = I::Ok;
            type Error = I::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), I::Error> {
                let value = Fated(value, self.fate.of(name));
                self.inner.serialize_field(name, &value)
            }

            fn end(self) -> Result<I::Ok, I::Error> {
                self.inner.end()
            }
        })*
    };
}

named!(SerializeStruct, SerializeStructVariant);
