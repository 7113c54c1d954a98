;; world operation-plugin
(module
  (@custom "opcell:manifest" "{\"schema\":1,\"name\":\"test\",\"version\":\"1.2.0\",\"capabilities\":{\"tools\":[{\"name\":\"http.fetch\",\"reason\":\"asks the tracker\"}],\"files\":[{\"name\":\"notes\",\"access\":\"read-write\",\"reason\":\"keeps notes\"}]},\"limits\":{\"memory\":\"1 MiB\"}}")
  ;; @memory
  ;; @entry
  ;; @describe
  ;; @invoke
)
