//! The macros `settings!` and `keyword_enum!`.

/// Declares a group of settings: the struct, its directive table and its [`Settings`](crate::Settings) impl.
///
/// ```
/// use freerun_conf::{Many, Offset, Value, settings, keyword_enum};
/// use std::time::Duration;
///
/// keyword_enum! {
///     /// When `If-Modified-Since` counts.
///     #[derive(Default)]
///     pub enum IfModifiedSince {
///         /// Never.
///         Off = "off",
///         /// When the times are equal.
///         #[default]
///         Exact = "exact",
///         /// When the file is not younger.
///         Before = "before",
///     }
/// }
///
/// settings! {
///     /// How files are sent.
///     #[module = "http/files"]
///     pub struct FileSettings {
///         /// Sends files with `sendfile()`.
///         ///
///         /// Further paragraphs are the documentation.
///         sendfile: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
///         /// Most bytes of one `sendfile()` call.
///         sendfile_max_chunk: Offset = "2m", in HTTP | SERVER | LOCATION;
///         /// How the times are compared.
///         if_modified_since: IfModifiedSince = "exact", in HTTP | SERVER | LOCATION;
///         /// Index files.
///         index: Many<Vec<String>> = "index.html", in HTTP | SERVER | LOCATION;
///         /// Accepted, no effect.
///         send_lowat: Option<Offset>, in HTTP | SERVER | LOCATION, fidelity = NoEffect("FreeBSD only");
///         /// Not inherited by inner levels.
///         #[name = "return"]
///         return_: Option<Vec<String>>, in SERVER | LOCATION, local;
///     }
/// }
/// ```
///
/// * A field without `= "text"` starts out as its type's `Default`; a constant may stand for the text.
/// * `in` names constants of [`Contexts`](crate::Contexts).
/// * Options after the contexts are `local`, `content`, `own`, `fidelity = Differs("…")`, `since = "1.29.3"` and
///   `members = SOME`, in any order. `local`: not inherited by a nested location, but by an `if` inside the location.
///   `content`: like `local`, and inherited by a `limit_except` inside the location, too. `own`: not inherited by any of
///   them. `members`: the [`Members`](crate::Members) of a family that have the row, where a family shares the table.
/// * Several directives can fold into one field: name them after the struct in `also { … }`. The field's type implements
///   [`Setting`](crate::Setting) and looks at `directive.name.text`:
///
/// ```
/// # use freerun_conf::{settings, Cx, Node, Problem, Setting, Shape};
/// /// The rewrite steps of one level, in the order written.
/// #[derive(Clone, Default)]
/// pub struct Script(pub Vec<String>);
///
/// impl Setting for Script {
///     const SHAPE: Shape = Shape::exactly(2, "$variable value"); // of the field's own directive
///     fn set(previous: Option<Self>, directive: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
///         let mut script = previous.unwrap_or_default();
///         script.0.push(directive.name.text.clone());
///         Ok(script)
///     }
/// }
///
/// settings! {
///     /// The rewrite module.
///     pub struct RewriteSettings {
///         /// Sets a variable.
///         #[name = "set"]
///         script: Script, in SERVER | LOCATION, local;
///     }
///     also {
///         /// Stops.
///         "break" => script: Shape::exactly(0, ""), in SERVER | LOCATION;
///     }
/// }
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $group_doc:literal])*
        $(#[module = $module:literal])?
        $vis:vis struct $group:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[name = $name:literal])?
                $field:ident : $type:ty $(= $default:expr)?, in $($context:ident)|+
                    $(, $option:ident $(= $option_value:expr)?)*;
            )*
        }
        $(also {
            $(
                $(#[doc = $also_doc:literal])*
                $also_name:literal => $also_field:ident : $also_shape:expr, in $($also_context:ident)|+
                    $(, $also_option:ident $(= $also_value:expr)?)*;
            )*
        })?
    ) => {
        $(#[doc = $group_doc])*
        #[derive(Clone)]
        $vis struct $group {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        const _: () = {
            #[allow(missing_docs)]
            pub struct LevelFields { $($field: ::core::option::Option<$type>,)* }

            impl ::core::default::Default for LevelFields {
                fn default() -> Self {
                    LevelFields { $($field: ::core::option::Option::None,)* }
                }
            }

            type Setter = fn(&mut LevelFields, &$crate::Node, &mut $crate::Cx) -> ::core::result::Result<(), $crate::Problem>;

            static DIRECTIVES: &[$crate::Directive] = &[
                $($crate::Directive {
                    name: $crate::__name!($field $($name)?),
                    contexts: $crate::Contexts::NONE $(.union($crate::Contexts::$context))+,
                    shape: <$type as $crate::Setting>::SHAPE,
                    default: $crate::__optional!($($default)?),
                    documentation: concat!($($doc, "\n",)* ""),
                    fidelity: $crate::__fidelity!($($option $(= $option_value)?),*),
                    inherit: $crate::__inherit!($($option $(= $option_value)?),*),
                    since: $crate::__since!($($option $(= $option_value)?),*),
                    members: $crate::__members!($($option $(= $option_value)?),*),
                },)*
                $($($crate::Directive {
                    name: $also_name,
                    contexts: $crate::Contexts::NONE $(.union($crate::Contexts::$also_context))+,
                    shape: $also_shape,
                    default: ::core::option::Option::None,
                    documentation: concat!($($also_doc, "\n",)* ""),
                    fidelity: $crate::__fidelity!($($also_option $(= $also_value)?),*),
                    inherit: $crate::__inherit!($($also_option $(= $also_value)?),*),
                    since: $crate::__since!($($also_option $(= $also_value)?),*),
                    members: $crate::__members!($($also_option $(= $also_value)?),*),
                },)*)?
            ];

            static SETTERS: &[Setter] = &[
                $(|level, node, cx| {
                    let previous = level.$field.take();
                    level.$field = ::core::option::Option::Some($crate::Setting::set(previous, node, cx)?);
                    ::core::result::Result::Ok(())
                },)*
                $($(|level, node, cx| {
                    let previous = level.$also_field.take();
                    level.$also_field = ::core::option::Option::Some($crate::Setting::set(previous, node, cx)?);
                    ::core::result::Result::Ok(())
                },)*)?
            ];

            impl $crate::Settings for $group {
                type Level = LevelFields;

                const NAME: &'static str = $crate::__name!($group $($module)?);
                const DOCS: &'static str = concat!($($group_doc, "\n",)* "");
                const MERGES_ALWAYS: bool = false $(|| <$type as $crate::Setting>::MERGES_ALWAYS)*;
                const HAS_LOCAL: bool = false $(|| !$crate::__inherit!($($option $(= $option_value)?),*))*;

                fn slot() -> &'static $crate::Slot {
                    static SLOT: $crate::Slot = $crate::Slot::new();
                    &SLOT
                }

                fn directives() -> &'static [$crate::Directive] {
                    DIRECTIVES
                }

                #[allow(unused_variables)]
                fn defaults(cx: &mut $crate::Cx) -> ::core::result::Result<Self, $crate::Problem> {
                    ::core::result::Result::Ok(Self {
                        $($field: $crate::__default!(
                            $type, $crate::__name!($field $($name)?), cx $(, $default)?
                        ),)*
                    })
                }

                fn set(
                    level: &mut LevelFields,
                    index: usize,
                    node: &$crate::Node,
                    cx: &mut $crate::Cx,
                ) -> ::core::result::Result<(), $crate::Problem> {
                    match SETTERS.get(index) {
                        ::core::option::Option::Some(setter) => setter(level, node, cx),
                        ::core::option::Option::None => ::core::result::Result::Err($crate::Problem::new(
                            ::std::format!("no row {index} in the directive table of {}", stringify!($group)),
                        )),
                    }
                }

                #[allow(unused_variables)]
                fn merge(level: LevelFields, parent: &Self, defaults: &Self, within: $crate::Contexts) -> Self {
                    Self {
                        $($field: $crate::Setting::merge(
                            level.$field,
                            if $crate::__inherit!($($option $(= $option_value)?),*)
                                || ($crate::__inherit_in_if!($($option $(= $option_value)?),*)
                                    && within.contains($crate::Contexts::LOCATION_IF))
                                || ($crate::__inherit_in_limit!($($option $(= $option_value)?),*)
                                    && within.contains($crate::Contexts::LIMIT_EXCEPT))
                            {
                                &parent.$field
                            } else {
                                &defaults.$field
                            },
                        ),)*
                    }
                }
            }
        };
    };
}

/// An enum of keywords that is a [`Value`](crate::Value): one argument, one of the words.
///
/// The words are compared ignoring case, and the error is nginx's `invalid value "x"`. A set of the words (one or more
/// arguments) is [`Flags`](crate::Flags) of it. See [`settings!`](crate::settings!) for an example.
#[macro_export]
macro_rules! keyword_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// The words of the configuration, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The variant of a word, ignoring case.
            pub fn from_word(word: &str) -> ::core::option::Option<Self> {
                $(if word.eq_ignore_ascii_case($word) {
                    return ::core::option::Option::Some(Self::$variant);
                })+
                ::core::option::Option::None
            }

            /// The word of the variant.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::Keyword for $name {
            const WORDS: &'static [&'static str] = Self::WORDS;
            const SYNTAX: &'static str = $crate::__alternatives!($($word),+);

            fn index(self) -> usize {
                self as usize
            }

            fn from_word(word: &str) -> ::core::option::Option<Self> {
                Self::from_word(word)
            }
        }

        impl $crate::Value for $name {
            const SHAPE: $crate::Shape = $crate::Shape::exactly(1, <Self as $crate::Keyword>::SYNTAX);

            fn parse(
                directive: &$crate::Node,
                _cx: &mut $crate::Cx,
            ) -> ::core::result::Result<Self, $crate::Problem> {
                match directive.args.first() {
                    ::core::option::Option::Some(word) => {
                        Self::from_word(&word.text).ok_or_else(|| $crate::unknown_keyword(directive, word, Self::WORDS))
                    }
                    ::core::option::Option::None => {
                        ::core::result::Result::Err($crate::Problem::wrong_count(directive))
                    }
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __alternatives {
    ($first:literal $(, $rest:literal)*) => { concat!($first $(, " | ", $rest)*) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __optional {
    () => {
        ::core::option::Option::None
    };
    ($value:expr) => {
        ::core::option::Option::Some($value)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __default {
    ($type:ty, $name:expr, $cx:ident) => {
        <$type as ::core::default::Default>::default()
    };
    ($type:ty, $name:expr, $cx:ident, $text:expr) => {
        $crate::parse_default::<$type>($name, $text, $cx)?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __fidelity {
    () => { $crate::Fidelity::Same };
    (fidelity = $value:expr $(, $($rest:tt)*)?) => {{
        #[allow(unused_imports)]
        use $crate::Fidelity::*;
        $value
    }};
    ($option:ident $(= $value:expr)? $(, $($rest:tt)*)?) => { $crate::__fidelity!($($($rest)*)?) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __since {
    () => { ::core::option::Option::None };
    (since = $value:expr $(, $($rest:tt)*)?) => { ::core::option::Option::Some($value) };
    ($option:ident $(= $value:expr)? $(, $($rest:tt)*)?) => { $crate::__since!($($($rest)*)?) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __members {
    () => { $crate::Members::ALL };
    (members = $value:expr $(, $($rest:tt)*)?) => { $value };
    ($option:ident $(= $value:expr)? $(, $($rest:tt)*)?) => { $crate::__members!($($($rest)*)?) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __inherit {
    () => { true };
    (local $(, $($rest:tt)*)?) => { false };
    (content $(, $($rest:tt)*)?) => { false };
    (own $(, $($rest:tt)*)?) => { false };
    (fidelity = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit!($($($rest)*)?) };
    (since = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit!($($($rest)*)?) };
    (members = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit!($($($rest)*)?) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __inherit_in_if {
    () => { true };
    (local $(, $($rest:tt)*)?) => { true };
    (content $(, $($rest:tt)*)?) => { true };
    (own $(, $($rest:tt)*)?) => { false };
    (fidelity = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit_in_if!($($($rest)*)?) };
    (since = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit_in_if!($($($rest)*)?) };
    (members = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit_in_if!($($($rest)*)?) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __inherit_in_limit {
    () => { true };
    (local $(, $($rest:tt)*)?) => { false };
    (content $(, $($rest:tt)*)?) => { true };
    (own $(, $($rest:tt)*)?) => { false };
    (fidelity = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit_in_limit!($($($rest)*)?) };
    (since = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit_in_limit!($($($rest)*)?) };
    (members = $value:expr $(, $($rest:tt)*)?) => { $crate::__inherit_in_limit!($($($rest)*)?) };
}
