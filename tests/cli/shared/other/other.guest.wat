;; world operation-plugin
(module
  ;; Unlike `echo` in this alone.
  (data (i32.const 96) "other")
  ;; @memory
  ;; @entry
  ;; @describe
  ;; @invoke
)
