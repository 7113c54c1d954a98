;; At 2048: result<success, failure> = success { data: "null", summary: none, details: none }.
(data (i32.const 2048) "\00\00\00\00\40\08\00\00\04\00\00\00")
(data (i32.const 2112) "null")
