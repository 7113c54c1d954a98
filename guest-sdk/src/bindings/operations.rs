#[allow(unfulfilled_lint_expectations, unused_imports)]
use super::imports::opcell::plugin::types as __with_name0;
#[allow(unfulfilled_lint_expectations, unused_imports)]
use super::imports::opcell::plugin::tools as __with_name1;
#[allow(unfulfilled_lint_expectations, unused_imports)]
use super::imports::opcell::plugin::skills as __with_name2;
#[allow(unfulfilled_lint_expectations, unused_imports)]
use super::imports::opcell::plugin::files as __with_name3;
#[allow(unfulfilled_lint_expectations, unused_imports)]
use super::imports::opcell::plugin::log as __with_name4;
#[allow(dead_code, clippy::all)]
pub mod exports {
    pub mod opcell {
        pub mod plugin {
            /// Exported by plugins that offer deterministic operations.
            #[allow(dead_code, async_fn_in_trait, unused_imports, clippy::all)]
            pub mod operations {
                #[used]
                #[doc(hidden)]
                static __FORCE_SECTION_REF: fn() = super::super::super::super::__link_custom_section_describing_imports;
                use super::super::super::super::_rt;
                pub type Json = super::super::super::super::__with_name0::Json;
                pub type Effects = super::super::super::super::__with_name0::Effects;
                pub type Context = super::super::super::super::__with_name0::Context;
                pub type Failure = super::super::super::super::__with_name0::Failure;
                /// One operation.
                #[derive(Clone, PartialEq)]
                pub struct OperationDescription {
                    /// `namespace/name`, each `[a-z0-9][a-z0-9-]*`.
                    pub id: _rt::String,
                    /// One sentence for a person or a model.
                    pub summary: _rt::String,
                    /// JSON Schema of the arguments; the host checks it before every call.
                    pub arguments_schema: Json,
                    /// JSON Schema of the result's data; the host checks it after every call.
                    pub data_schema: Json,
                    pub effects: Effects,
                }
                impl ::core::fmt::Debug for OperationDescription {
                    fn fmt(
                        &self,
                        f: &mut ::core::fmt::Formatter<'_>,
                    ) -> ::core::fmt::Result {
                        f.debug_struct("OperationDescription")
                            .field("id", &self.id)
                            .field("summary", &self.summary)
                            .field("arguments-schema", &self.arguments_schema)
                            .field("data-schema", &self.data_schema)
                            .field("effects", &self.effects)
                            .finish()
                    }
                }
                /// What an operation returns.
                #[derive(Clone, PartialEq)]
                pub struct Success {
                    pub data: Json,
                    pub summary: ::core::option::Option<_rt::String>,
                    pub details: ::core::option::Option<Json>,
                }
                impl ::core::fmt::Debug for Success {
                    fn fmt(
                        &self,
                        f: &mut ::core::fmt::Formatter<'_>,
                    ) -> ::core::fmt::Result {
                        f.debug_struct("Success")
                            .field("data", &self.data)
                            .field("summary", &self.summary)
                            .field("details", &self.details)
                            .finish()
                    }
                }
                #[doc(hidden)]
                #[allow(non_snake_case, unused_unsafe)]
                pub unsafe fn _export_describe_cabi<T_: Guest>() -> *mut u8 {
                    unsafe {
                        #[cfg(target_arch = "wasm32")] _rt::run_ctors_once();
                        let result0 = { T_::describe() };
                        let ptr1 = (&raw mut _RET_AREA.0).cast::<u8>();
                        let vec7 = result0;
                        let len7 = vec7.len();
                        let layout7 = _rt::alloc::Layout::from_size_align(
                                vec7.len() * (9 * ::core::mem::size_of::<*const u8>()),
                                ::core::mem::size_of::<*const u8>(),
                            )
                            .unwrap();
                        let (result7, _cleanup7) = wit_bindgen::rt::Cleanup::new(
                            layout7,
                        );
                        if let Some(cleanup) = _cleanup7 {
                            cleanup.forget();
                        }
                        for (i, e) in vec7.into_iter().enumerate() {
                            let base = result7
                                .add(i * (9 * ::core::mem::size_of::<*const u8>()));
                            {
                                let OperationDescription {
                                    id: id2,
                                    summary: summary2,
                                    arguments_schema: arguments_schema2,
                                    data_schema: data_schema2,
                                    effects: effects2,
                                } = e;
                                let vec3 = (id2.into_bytes()).into_boxed_slice();
                                let ptr3 = vec3.as_ptr().cast::<u8>();
                                let len3 = vec3.len();
                                ::core::mem::forget(vec3);
                                *base
                                    .add(::core::mem::size_of::<*const u8>())
                                    .cast::<usize>() = len3;
                                *base.add(0).cast::<*mut u8>() = ptr3.cast_mut();
                                let vec4 = (summary2.into_bytes()).into_boxed_slice();
                                let ptr4 = vec4.as_ptr().cast::<u8>();
                                let len4 = vec4.len();
                                ::core::mem::forget(vec4);
                                *base
                                    .add(3 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>() = len4;
                                *base
                                    .add(2 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>() = ptr4.cast_mut();
                                let vec5 = (arguments_schema2.into_bytes())
                                    .into_boxed_slice();
                                let ptr5 = vec5.as_ptr().cast::<u8>();
                                let len5 = vec5.len();
                                ::core::mem::forget(vec5);
                                *base
                                    .add(5 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>() = len5;
                                *base
                                    .add(4 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>() = ptr5.cast_mut();
                                let vec6 = (data_schema2.into_bytes()).into_boxed_slice();
                                let ptr6 = vec6.as_ptr().cast::<u8>();
                                let len6 = vec6.len();
                                ::core::mem::forget(vec6);
                                *base
                                    .add(7 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>() = len6;
                                *base
                                    .add(6 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>() = ptr6.cast_mut();
                                *base
                                    .add(8 * ::core::mem::size_of::<*const u8>())
                                    .cast::<u8>() = (effects2.clone() as i32) as u8;
                            }
                        }
                        *ptr1.add(::core::mem::size_of::<*const u8>()).cast::<usize>() = len7;
                        *ptr1.add(0).cast::<*mut u8>() = result7;
                        ptr1
                    }
                }
                #[doc(hidden)]
                #[allow(non_snake_case)]
                pub unsafe fn __post_return_describe<T_: Guest>(arg0: *mut u8) {
                    unsafe {
                        let l0 = *arg0.add(0).cast::<*mut u8>();
                        let l1 = *arg0
                            .add(::core::mem::size_of::<*const u8>())
                            .cast::<usize>();
                        let base10 = l0;
                        let len10 = l1;
                        for i in 0..len10 {
                            let base = base10
                                .add(i * (9 * ::core::mem::size_of::<*const u8>()));
                            {
                                let l2 = *base.add(0).cast::<*mut u8>();
                                let l3 = *base
                                    .add(::core::mem::size_of::<*const u8>())
                                    .cast::<usize>();
                                _rt::cabi_dealloc(l2, l3, 1);
                                let l4 = *base
                                    .add(2 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>();
                                let l5 = *base
                                    .add(3 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>();
                                _rt::cabi_dealloc(l4, l5, 1);
                                let l6 = *base
                                    .add(4 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>();
                                let l7 = *base
                                    .add(5 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>();
                                _rt::cabi_dealloc(l6, l7, 1);
                                let l8 = *base
                                    .add(6 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>();
                                let l9 = *base
                                    .add(7 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>();
                                _rt::cabi_dealloc(l8, l9, 1);
                            }
                        }
                        _rt::cabi_dealloc(
                            base10,
                            len10 * (9 * ::core::mem::size_of::<*const u8>()),
                            ::core::mem::size_of::<*const u8>(),
                        );
                    }
                }
                #[doc(hidden)]
                #[allow(non_snake_case, unused_unsafe)]
                pub unsafe fn _export_invoke_cabi<T_: Guest>(
                    arg0: *mut u8,
                    arg1: usize,
                    arg2: *mut u8,
                    arg3: usize,
                    arg4: *mut u8,
                    arg5: usize,
                    arg6: *mut u8,
                    arg7: usize,
                    arg8: i32,
                    arg9: i32,
                    arg10: *mut u8,
                    arg11: usize,
                ) -> *mut u8 {
                    unsafe {
                        #[cfg(target_arch = "wasm32")] _rt::run_ctors_once();
                        let result5 = {
                            let len0 = arg1;
                            let bytes0 = _rt::Vec::from_raw_parts(
                                arg0.cast(),
                                len0,
                                len0,
                            );
                            let len1 = arg3;
                            let bytes1 = _rt::Vec::from_raw_parts(
                                arg2.cast(),
                                len1,
                                len1,
                            );
                            let len2 = arg5;
                            let bytes2 = _rt::Vec::from_raw_parts(
                                arg4.cast(),
                                len2,
                                len2,
                            );
                            let len3 = arg7;
                            let bytes3 = _rt::Vec::from_raw_parts(
                                arg6.cast(),
                                len3,
                                len3,
                            );
                            let len4 = arg11;
                            let bytes4 = _rt::Vec::from_raw_parts(
                                arg10.cast(),
                                len4,
                                len4,
                            );
                            T_::invoke(
                                _rt::string_lift(bytes0),
                                _rt::string_lift(bytes1),
                                super::super::super::super::__with_name0::Context {
                                    run: _rt::string_lift(bytes2),
                                    step: _rt::string_lift(bytes3),
                                    visit: arg8 as u32,
                                    attempt: arg9 as u32,
                                    idempotency_key: _rt::string_lift(bytes4),
                                },
                            )
                        };
                        let ptr6 = (&raw mut _RET_AREA.0).cast::<u8>();
                        match result5 {
                            Ok(e) => {
                                *ptr6.add(0).cast::<u8>() = (0i32) as u8;
                                let Success {
                                    data: data7,
                                    summary: summary7,
                                    details: details7,
                                } = e;
                                let vec8 = (data7.into_bytes()).into_boxed_slice();
                                let ptr8 = vec8.as_ptr().cast::<u8>();
                                let len8 = vec8.len();
                                ::core::mem::forget(vec8);
                                *ptr6
                                    .add(2 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>() = len8;
                                *ptr6
                                    .add(::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>() = ptr8.cast_mut();
                                match summary7 {
                                    Some(e) => {
                                        *ptr6
                                            .add(3 * ::core::mem::size_of::<*const u8>())
                                            .cast::<u8>() = (1i32) as u8;
                                        let vec9 = (e.into_bytes()).into_boxed_slice();
                                        let ptr9 = vec9.as_ptr().cast::<u8>();
                                        let len9 = vec9.len();
                                        ::core::mem::forget(vec9);
                                        *ptr6
                                            .add(5 * ::core::mem::size_of::<*const u8>())
                                            .cast::<usize>() = len9;
                                        *ptr6
                                            .add(4 * ::core::mem::size_of::<*const u8>())
                                            .cast::<*mut u8>() = ptr9.cast_mut();
                                    }
                                    None => {
                                        *ptr6
                                            .add(3 * ::core::mem::size_of::<*const u8>())
                                            .cast::<u8>() = (0i32) as u8;
                                    }
                                };
                                match details7 {
                                    Some(e) => {
                                        *ptr6
                                            .add(6 * ::core::mem::size_of::<*const u8>())
                                            .cast::<u8>() = (1i32) as u8;
                                        let vec10 = (e.into_bytes()).into_boxed_slice();
                                        let ptr10 = vec10.as_ptr().cast::<u8>();
                                        let len10 = vec10.len();
                                        ::core::mem::forget(vec10);
                                        *ptr6
                                            .add(8 * ::core::mem::size_of::<*const u8>())
                                            .cast::<usize>() = len10;
                                        *ptr6
                                            .add(7 * ::core::mem::size_of::<*const u8>())
                                            .cast::<*mut u8>() = ptr10.cast_mut();
                                    }
                                    None => {
                                        *ptr6
                                            .add(6 * ::core::mem::size_of::<*const u8>())
                                            .cast::<u8>() = (0i32) as u8;
                                    }
                                };
                            }
                            Err(e) => {
                                *ptr6.add(0).cast::<u8>() = (1i32) as u8;
                                let super::super::super::super::__with_name0::Failure {
                                    reason: reason11,
                                    message: message11,
                                    details: details11,
                                } = e;
                                let vec12 = (reason11.into_bytes()).into_boxed_slice();
                                let ptr12 = vec12.as_ptr().cast::<u8>();
                                let len12 = vec12.len();
                                ::core::mem::forget(vec12);
                                *ptr6
                                    .add(2 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>() = len12;
                                *ptr6
                                    .add(::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>() = ptr12.cast_mut();
                                let vec13 = (message11.into_bytes()).into_boxed_slice();
                                let ptr13 = vec13.as_ptr().cast::<u8>();
                                let len13 = vec13.len();
                                ::core::mem::forget(vec13);
                                *ptr6
                                    .add(4 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>() = len13;
                                *ptr6
                                    .add(3 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>() = ptr13.cast_mut();
                                match details11 {
                                    Some(e) => {
                                        *ptr6
                                            .add(5 * ::core::mem::size_of::<*const u8>())
                                            .cast::<u8>() = (1i32) as u8;
                                        let vec14 = (e.into_bytes()).into_boxed_slice();
                                        let ptr14 = vec14.as_ptr().cast::<u8>();
                                        let len14 = vec14.len();
                                        ::core::mem::forget(vec14);
                                        *ptr6
                                            .add(7 * ::core::mem::size_of::<*const u8>())
                                            .cast::<usize>() = len14;
                                        *ptr6
                                            .add(6 * ::core::mem::size_of::<*const u8>())
                                            .cast::<*mut u8>() = ptr14.cast_mut();
                                    }
                                    None => {
                                        *ptr6
                                            .add(5 * ::core::mem::size_of::<*const u8>())
                                            .cast::<u8>() = (0i32) as u8;
                                    }
                                };
                            }
                        };
                        ptr6
                    }
                }
                #[doc(hidden)]
                #[allow(non_snake_case)]
                pub unsafe fn __post_return_invoke<T_: Guest>(arg0: *mut u8) {
                    unsafe {
                        let l0 = i32::from(*arg0.add(0).cast::<u8>());
                        match l0 {
                            0 => {
                                let l1 = *arg0
                                    .add(::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>();
                                let l2 = *arg0
                                    .add(2 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>();
                                _rt::cabi_dealloc(l1, l2, 1);
                                let l3 = i32::from(
                                    *arg0
                                        .add(3 * ::core::mem::size_of::<*const u8>())
                                        .cast::<u8>(),
                                );
                                match l3 {
                                    0 => {}
                                    _ => {
                                        let l4 = *arg0
                                            .add(4 * ::core::mem::size_of::<*const u8>())
                                            .cast::<*mut u8>();
                                        let l5 = *arg0
                                            .add(5 * ::core::mem::size_of::<*const u8>())
                                            .cast::<usize>();
                                        _rt::cabi_dealloc(l4, l5, 1);
                                    }
                                }
                                let l6 = i32::from(
                                    *arg0
                                        .add(6 * ::core::mem::size_of::<*const u8>())
                                        .cast::<u8>(),
                                );
                                match l6 {
                                    0 => {}
                                    _ => {
                                        let l7 = *arg0
                                            .add(7 * ::core::mem::size_of::<*const u8>())
                                            .cast::<*mut u8>();
                                        let l8 = *arg0
                                            .add(8 * ::core::mem::size_of::<*const u8>())
                                            .cast::<usize>();
                                        _rt::cabi_dealloc(l7, l8, 1);
                                    }
                                }
                            }
                            _ => {
                                let l9 = *arg0
                                    .add(::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>();
                                let l10 = *arg0
                                    .add(2 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>();
                                _rt::cabi_dealloc(l9, l10, 1);
                                let l11 = *arg0
                                    .add(3 * ::core::mem::size_of::<*const u8>())
                                    .cast::<*mut u8>();
                                let l12 = *arg0
                                    .add(4 * ::core::mem::size_of::<*const u8>())
                                    .cast::<usize>();
                                _rt::cabi_dealloc(l11, l12, 1);
                                let l13 = i32::from(
                                    *arg0
                                        .add(5 * ::core::mem::size_of::<*const u8>())
                                        .cast::<u8>(),
                                );
                                match l13 {
                                    0 => {}
                                    _ => {
                                        let l14 = *arg0
                                            .add(6 * ::core::mem::size_of::<*const u8>())
                                            .cast::<*mut u8>();
                                        let l15 = *arg0
                                            .add(7 * ::core::mem::size_of::<*const u8>())
                                            .cast::<usize>();
                                        _rt::cabi_dealloc(l14, l15, 1);
                                    }
                                }
                            }
                        }
                    }
                }
                pub trait Guest {
                    /// Lists the operations; must return the same list every time.
                    #[allow(async_fn_in_trait)]
                    fn describe() -> _rt::Vec<OperationDescription>;
                    /// Runs one operation.
                    #[allow(async_fn_in_trait)]
                    fn invoke(
                        id: _rt::String,
                        arguments: Json,
                        context: Context,
                    ) -> ::core::result::Result<Success, Failure>;
                }
                #[doc(hidden)]
                #[macro_export]
                macro_rules! __export_opcell_plugin_operations_0_1_0_cabi {
                    ($ty:ident with_types_in $($path_to_types:tt)*) => {
                        const _ : () = { #[unsafe (export_name =
                        "opcell:plugin/operations@0.1.0#describe")] unsafe extern "C" fn
                        export_describe() -> * mut u8 { unsafe { $($path_to_types)*::
                        _export_describe_cabi::<$ty > () } } #[unsafe (export_name =
                        "cabi_post_opcell:plugin/operations@0.1.0#describe")] unsafe
                        extern "C" fn _post_return_describe(arg0 : * mut u8,) { unsafe {
                        $($path_to_types)*:: __post_return_describe::<$ty > (arg0) } }
                        #[unsafe (export_name = "opcell:plugin/operations@0.1.0#invoke")]
                        unsafe extern "C" fn export_invoke(arg0 : * mut u8, arg1 : usize,
                        arg2 : * mut u8, arg3 : usize, arg4 : * mut u8, arg5 : usize,
                        arg6 : * mut u8, arg7 : usize, arg8 : i32, arg9 : i32, arg10 : *
                        mut u8, arg11 : usize,) -> * mut u8 { unsafe {
                        $($path_to_types)*:: _export_invoke_cabi::<$ty > (arg0, arg1,
                        arg2, arg3, arg4, arg5, arg6, arg7, arg8, arg9, arg10, arg11) } }
                        #[unsafe (export_name =
                        "cabi_post_opcell:plugin/operations@0.1.0#invoke")] unsafe extern
                        "C" fn _post_return_invoke(arg0 : * mut u8,) { unsafe {
                        $($path_to_types)*:: __post_return_invoke::<$ty > (arg0) } } };
                    };
                }
                #[doc(hidden)]
                pub use __export_opcell_plugin_operations_0_1_0_cabi;
                #[cfg_attr(target_pointer_width = "64", repr(align(8)))]
                #[cfg_attr(target_pointer_width = "32", repr(align(4)))]
                struct _RetArea(
                    [::core::mem::MaybeUninit<
                        u8,
                    >; 9 * ::core::mem::size_of::<*const u8>()],
                );
                static mut _RET_AREA: _RetArea = _RetArea(
                    [::core::mem::MaybeUninit::uninit(); 9
                        * ::core::mem::size_of::<*const u8>()],
                );
            }
        }
    }
}
mod _rt {
    #![allow(dead_code, unused_imports, clippy::all)]
    pub use alloc_crate::string::String;
    #[cfg(target_arch = "wasm32")]
    pub fn run_ctors_once() {
        wit_bindgen::rt::run_ctors_once();
    }
    pub use alloc_crate::alloc;
    pub unsafe fn cabi_dealloc(ptr: *mut u8, size: usize, align: usize) {
        if size == 0 {
            return;
        }
        unsafe {
            let layout = alloc::Layout::from_size_align_unchecked(size, align);
            alloc::dealloc(ptr, layout);
        }
    }
    pub use alloc_crate::vec::Vec;
    pub unsafe fn string_lift(bytes: Vec<u8>) -> String {
        if cfg!(debug_assertions) {
            String::from_utf8(bytes).unwrap()
        } else {
            unsafe { String::from_utf8_unchecked(bytes) }
        }
    }
    extern crate alloc as alloc_crate;
}
/// Generates `#[unsafe(no_mangle)]` functions to export the specified type as
/// the root implementation of all generated traits.
///
/// For more information see the documentation of `wit_bindgen::generate!`.
///
/// ```rust
/// # macro_rules! export_operations{ ($($t:tt)*) => (); }
/// # trait Guest {}
/// struct MyType;
///
/// impl Guest for MyType {
///     // ...
/// }
///
/// export_operations!(MyType);
/// ```
#[allow(unused_macros)]
#[doc(hidden)]
#[macro_export]
macro_rules! __export_operation_plugin_impl {
    ($ty:ident) => {
        opcell_sdk::bindings::operations::export_operations!($ty with_types_in
        opcell_sdk::bindings::operations);
    };
    ($ty:ident with_types_in $($path_to_types_root:tt)*) => {
        $($path_to_types_root)*::
        exports::opcell::plugin::operations::__export_opcell_plugin_operations_0_1_0_cabi!($ty
        with_types_in $($path_to_types_root)*:: exports::opcell::plugin::operations);
        const _ : () = { #[cfg(target_arch = "wasm32")] #[unsafe (link_section =
        "component-type:wit-bindgen:0.63.0:opcell:plugin@0.1.0:operation-plugin:imports and exports")]
        #[doc(hidden)] #[allow(clippy::octal_escapes)] pub static
        __WIT_BINDGEN_COMPONENT_TYPE : [u8; 2221] = *
        b"\
\0asm\x0d\0\x01\0\0\x19\x16wit-component-encoding\x04\0\x07\xa6\x10\x01A\x02\x01\
A\x11\x01B\x0b\x01s\x04\0\x04json\x03\0\0\x01m\x03\x04pure\x0aidempotent\x04once\
\x04\0\x07effects\x03\0\x02\x01r\x05\x03runs\x04steps\x05visity\x07attempty\x0fi\
dempotency-keys\x04\0\x07context\x03\0\x04\x01k\x01\x01r\x03\x06reasons\x07messa\
ges\x07details\x06\x04\0\x07failure\x03\0\x07\x01r\x03\x0acapabilitys\x04rules\x06\
remedys\x04\0\x06denial\x03\0\x09\x03\0\x19opcell:plugin/types@0.1.0\x05\0\x02\x03\
\0\0\x04json\x02\x03\0\0\x07failure\x02\x03\0\0\x06denial\x01B\x10\x02\x03\x02\x01\
\x01\x04\0\x04json\x03\0\0\x02\x03\x02\x01\x02\x04\0\x07failure\x03\0\x02\x02\x03\
\x02\x01\x03\x04\0\x06denial\x03\0\x04\x01r\x03\x04names\x07summarys\x10argument\
s-schema\x01\x04\0\x10tool-description\x03\0\x06\x01q\x02\x06denied\x01\x05\0\x06\
failed\x01\x03\0\x04\0\x0atool-error\x03\0\x08\x01p\x07\x01@\0\0\x0a\x04\0\x04li\
st\x01\x0b\x01j\x01\x01\x01\x09\x01@\x02\x04names\x09arguments\x01\0\x0c\x04\0\x04\
call\x01\x0d\x03\0\x19opcell:plugin/tools@0.1.0\x05\x04\x01B\x12\x02\x03\x02\x01\
\x02\x04\0\x07failure\x03\0\0\x02\x03\x02\x01\x03\x04\0\x06denial\x03\0\x02\x01r\
\x02\x04names\x0bdescriptions\x04\0\x11skill-description\x03\0\x04\x01q\x02\x06d\
enied\x01\x03\0\x06failed\x01\x01\0\x04\0\x0bskill-error\x03\0\x06\x01p\x05\x01@\
\0\0\x08\x04\0\x04list\x01\x09\x01j\x01s\x01\x07\x01@\x01\x04names\0\x0a\x04\0\x04\
read\x01\x0b\x01p}\x01j\x01\x0c\x01\x07\x01@\x02\x04names\x04paths\0\x0d\x04\0\x0d\
read-resource\x01\x0e\x03\0\x1aopcell:plugin/skills@0.1.0\x05\x05\x01B0\x02\x03\x02\
\x01\x03\x04\0\x06denial\x03\0\0\x01m\x03\x04file\x09directory\x05other\x04\0\x0a\
entry-kind\x03\0\x02\x01r\x03\x04names\x04kind\x03\x04sizew\x04\0\x05entry\x03\0\
\x04\x01q\x07\x06denied\x01\x01\0\x09not-found\0\0\x0ealready-exists\0\0\x0anot-\
a-file\0\0\x0fnot-a-directory\0\0\x05quota\x01s\0\x06failed\x01s\0\x04\0\x0afile\
-error\x03\0\x06\x01r\x02\x04names\x08writable\x7f\x04\0\x04root\x03\0\x08\x04\0\
\x09directory\x03\x01\x04\0\x04file\x03\x01\x01h\x0a\x01p\x05\x01j\x01\x0d\x01\x07\
\x01@\x01\x04self\x0c\0\x0e\x04\0\x19[method]directory.entries\x01\x0f\x01i\x0a\x01\
j\x01\x10\x01\x07\x01@\x02\x04self\x0c\x04paths\0\x11\x04\0\x20[method]directory\
.open-directory\x01\x12\x01i\x0b\x01j\x01\x13\x01\x07\x01@\x02\x04self\x0c\x04pa\
ths\0\x14\x04\0\x16[method]directory.open\x01\x15\x04\0\x18[method]directory.cre\
ate\x01\x15\x01j\0\x01\x07\x01@\x02\x04self\x0c\x04paths\0\x16\x04\0\"[method]di\
rectory.create-directory\x01\x17\x04\0\x18[method]directory.remove\x01\x17\x01j\x01\
\x05\x01\x07\x01@\x02\x04self\x0c\x04paths\0\x18\x04\0\x1a[method]directory.meta\
data\x01\x19\x01h\x0b\x01j\x01w\x01\x07\x01@\x01\x04self\x1a\0\x1b\x04\0\x11[met\
hod]file.size\x01\x1c\x01p}\x01j\x01\x1d\x01\x07\x01@\x03\x04self\x1a\x06offsetw\
\x06lengthy\0\x1e\x04\0\x11[method]file.read\x01\x1f\x01@\x02\x04self\x1a\x05byt\
es\x1d\0\x16\x04\0\x12[method]file.write\x01\x20\x01p\x09\x01@\0\0!\x04\0\x05roo\
ts\x01\"\x01@\x01\x04names\0\x11\x04\0\x09open-root\x01#\x03\0\x19opcell:plugin/\
files@0.1.0\x05\x06\x01B\x08\x01m\x05\x05trace\x05debug\x04info\x04warn\x05error\
\x04\0\x05level\x03\0\0\x01@\x02\x05level\x01\x07messages\x01\0\x04\0\x03log\x01\
\x02\x01@\x03\x04donew\x05totalw\x07messages\x01\0\x04\0\x08progress\x01\x03\x01\
@\x01\x07messages\x01\0\x04\0\x08panicked\x01\x04\x03\0\x17opcell:plugin/log@0.1\
.0\x05\x07\x02\x03\0\0\x07effects\x02\x03\0\0\x07context\x01B\x14\x02\x03\x02\x01\
\x01\x04\0\x04json\x03\0\0\x02\x03\x02\x01\x08\x04\0\x07effects\x03\0\x02\x02\x03\
\x02\x01\x09\x04\0\x07context\x03\0\x04\x02\x03\x02\x01\x02\x04\0\x07failure\x03\
\0\x06\x01r\x05\x02ids\x07summarys\x10arguments-schema\x01\x0bdata-schema\x01\x07\
effects\x03\x04\0\x15operation-description\x03\0\x08\x01ks\x01k\x01\x01r\x03\x04\
data\x01\x07summary\x0a\x07details\x0b\x04\0\x07success\x03\0\x0c\x01p\x09\x01@\0\
\0\x0e\x04\0\x08describe\x01\x0f\x01j\x01\x0d\x01\x07\x01@\x03\x02ids\x09argumen\
ts\x01\x07context\x05\0\x10\x04\0\x06invoke\x01\x11\x04\0\x1eopcell:plugin/opera\
tions@0.1.0\x05\x0a\x04\0$opcell:plugin/operation-plugin@0.1.0\x04\0\x0b\x16\x01\
\0\x10operation-plugin\x03\0\0\0G\x09producers\x01\x0cprocessed-by\x02\x0dwit-co\
mponent\x070.262.0\x10wit-bindgen-rust\x060.63.0";
        };
    };
}
#[doc(inline)]
pub use __export_operation_plugin_impl as export_operations;
#[cfg(target_arch = "wasm32")]
#[unsafe(
    link_section = "component-type:wit-bindgen:0.63.0:opcell:plugin@0.1.0:operation-plugin-with-all-of-its-exports-removed:encoded world"
)]
#[doc(hidden)]
#[allow(clippy::octal_escapes)]
pub static __WIT_BINDGEN_COMPONENT_TYPE: [u8; 1958] = *b"\
\0asm\x0d\0\x01\0\0\x19\x16wit-component-encoding\x04\0\x07\xff\x0d\x01A\x02\x01\
A\x0d\x01B\x0b\x01s\x04\0\x04json\x03\0\0\x01m\x03\x04pure\x0aidempotent\x04once\
\x04\0\x07effects\x03\0\x02\x01r\x05\x03runs\x04steps\x05visity\x07attempty\x0fi\
dempotency-keys\x04\0\x07context\x03\0\x04\x01k\x01\x01r\x03\x06reasons\x07messa\
ges\x07details\x06\x04\0\x07failure\x03\0\x07\x01r\x03\x0acapabilitys\x04rules\x06\
remedys\x04\0\x06denial\x03\0\x09\x03\0\x19opcell:plugin/types@0.1.0\x05\0\x02\x03\
\0\0\x04json\x02\x03\0\0\x07failure\x02\x03\0\0\x06denial\x01B\x10\x02\x03\x02\x01\
\x01\x04\0\x04json\x03\0\0\x02\x03\x02\x01\x02\x04\0\x07failure\x03\0\x02\x02\x03\
\x02\x01\x03\x04\0\x06denial\x03\0\x04\x01r\x03\x04names\x07summarys\x10argument\
s-schema\x01\x04\0\x10tool-description\x03\0\x06\x01q\x02\x06denied\x01\x05\0\x06\
failed\x01\x03\0\x04\0\x0atool-error\x03\0\x08\x01p\x07\x01@\0\0\x0a\x04\0\x04li\
st\x01\x0b\x01j\x01\x01\x01\x09\x01@\x02\x04names\x09arguments\x01\0\x0c\x04\0\x04\
call\x01\x0d\x03\0\x19opcell:plugin/tools@0.1.0\x05\x04\x01B\x12\x02\x03\x02\x01\
\x02\x04\0\x07failure\x03\0\0\x02\x03\x02\x01\x03\x04\0\x06denial\x03\0\x02\x01r\
\x02\x04names\x0bdescriptions\x04\0\x11skill-description\x03\0\x04\x01q\x02\x06d\
enied\x01\x03\0\x06failed\x01\x01\0\x04\0\x0bskill-error\x03\0\x06\x01p\x05\x01@\
\0\0\x08\x04\0\x04list\x01\x09\x01j\x01s\x01\x07\x01@\x01\x04names\0\x0a\x04\0\x04\
read\x01\x0b\x01p}\x01j\x01\x0c\x01\x07\x01@\x02\x04names\x04paths\0\x0d\x04\0\x0d\
read-resource\x01\x0e\x03\0\x1aopcell:plugin/skills@0.1.0\x05\x05\x01B0\x02\x03\x02\
\x01\x03\x04\0\x06denial\x03\0\0\x01m\x03\x04file\x09directory\x05other\x04\0\x0a\
entry-kind\x03\0\x02\x01r\x03\x04names\x04kind\x03\x04sizew\x04\0\x05entry\x03\0\
\x04\x01q\x07\x06denied\x01\x01\0\x09not-found\0\0\x0ealready-exists\0\0\x0anot-\
a-file\0\0\x0fnot-a-directory\0\0\x05quota\x01s\0\x06failed\x01s\0\x04\0\x0afile\
-error\x03\0\x06\x01r\x02\x04names\x08writable\x7f\x04\0\x04root\x03\0\x08\x04\0\
\x09directory\x03\x01\x04\0\x04file\x03\x01\x01h\x0a\x01p\x05\x01j\x01\x0d\x01\x07\
\x01@\x01\x04self\x0c\0\x0e\x04\0\x19[method]directory.entries\x01\x0f\x01i\x0a\x01\
j\x01\x10\x01\x07\x01@\x02\x04self\x0c\x04paths\0\x11\x04\0\x20[method]directory\
.open-directory\x01\x12\x01i\x0b\x01j\x01\x13\x01\x07\x01@\x02\x04self\x0c\x04pa\
ths\0\x14\x04\0\x16[method]directory.open\x01\x15\x04\0\x18[method]directory.cre\
ate\x01\x15\x01j\0\x01\x07\x01@\x02\x04self\x0c\x04paths\0\x16\x04\0\"[method]di\
rectory.create-directory\x01\x17\x04\0\x18[method]directory.remove\x01\x17\x01j\x01\
\x05\x01\x07\x01@\x02\x04self\x0c\x04paths\0\x18\x04\0\x1a[method]directory.meta\
data\x01\x19\x01h\x0b\x01j\x01w\x01\x07\x01@\x01\x04self\x1a\0\x1b\x04\0\x11[met\
hod]file.size\x01\x1c\x01p}\x01j\x01\x1d\x01\x07\x01@\x03\x04self\x1a\x06offsetw\
\x06lengthy\0\x1e\x04\0\x11[method]file.read\x01\x1f\x01@\x02\x04self\x1a\x05byt\
es\x1d\0\x16\x04\0\x12[method]file.write\x01\x20\x01p\x09\x01@\0\0!\x04\0\x05roo\
ts\x01\"\x01@\x01\x04names\0\x11\x04\0\x09open-root\x01#\x03\0\x19opcell:plugin/\
files@0.1.0\x05\x06\x01B\x08\x01m\x05\x05trace\x05debug\x04info\x04warn\x05error\
\x04\0\x05level\x03\0\0\x01@\x02\x05level\x01\x07messages\x01\0\x04\0\x03log\x01\
\x02\x01@\x03\x04donew\x05totalw\x07messages\x01\0\x04\0\x08progress\x01\x03\x01\
@\x01\x07messages\x01\0\x04\0\x08panicked\x01\x04\x03\0\x17opcell:plugin/log@0.1\
.0\x05\x07\x04\0Dopcell:plugin/operation-plugin-with-all-of-its-exports-removed@\
0.1.0\x04\0\x0b6\x01\00operation-plugin-with-all-of-its-exports-removed\x03\0\0\0\
G\x09producers\x01\x0cprocessed-by\x02\x0dwit-component\x070.262.0\x10wit-bindge\
n-rust\x060.63.0";
#[inline(never)]
#[doc(hidden)]
pub fn __link_custom_section_describing_imports() {
    wit_bindgen::rt::maybe_link_cabi_realloc();
}
