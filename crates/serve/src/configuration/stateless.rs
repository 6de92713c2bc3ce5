//! Settings without a value.

/// Implements a setting whose directives only have side effects: their variables are in the table of variables.
macro_rules! stateless {
    ($name:ident) => {
        impl<S> Clone for $name<S> {
            fn clone(&self) -> $name<S> {
                *self
            }
        }

        impl<S> Copy for $name<S> {}

        impl<S> Default for $name<S> {
            fn default() -> $name<S> {
                $name(PhantomData)
            }
        }

        impl<S> std::fmt::Debug for $name<S> {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(stringify!($name))
            }
        }
    };
}
pub(crate) use stateless;
