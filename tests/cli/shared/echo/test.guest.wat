;; world operation-plugin
(module
  ;; @memory
  ;; @entry
  ;; @describe
  ;; @invoke
)
