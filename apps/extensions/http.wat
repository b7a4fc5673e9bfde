;; Code by HTTP: has the node fetch a bundle, which gets into its store if it has the name that was asked for. A call does not wait: it
;; gives a number, by which one asks how it stands. The hosts are those of [http] in the node's configuration.
;;
;;     anode extension load r1 apps/extensions/http.wat
;;     anode node call r1 http.fetch http://mirror.example/ping.anb NAME
;;     anode node call r1 http.state 1
(module
  (import "code" "fetch" (func $fetch (param i32) (result i32)))
  (import "code" "state" (func $state (param i32) (result i32)))
  (memory (export "memory") 1)
  (global (export "an_buffer") i32 (i32.const 0))
  ;; The number of the last fetch.
  (global $last (mut i64) (i64.const 0))

  (func (export "fetch") (param $length i32) (result i32)
    (local $result i32)
    (local.set $result (call $fetch (local.get $length)))
    (if (i32.eq (local.get $result) (i32.const 8)) (then (global.set $last (i64.load (i32.const 0)))))
    (local.get $result))

  (func (export "state") (param $length i32) (result i32)
    (call $state (local.get $length)))

  (func (export "last") (param i32) (result i32)
    (i64.store (i32.const 0) (global.get $last))
    (call $state (i32.const 8)))

  (@custom "anode.extension"
    "name = 'http'\n"
    "about = 'code by HTTP, into the store of the node'\n"
    "needs = ['code.fetch : (string, string) -> int', 'code.state : int -> string']\n"
    "[[call]]\n"
    "name = 'fetch'\n"
    "type = '(string, string) -> int'\n"
    "about = 'begins to fetch the bundle of a URL, whose name has 64 digits; its number'\n"
    "[[call]]\n"
    "name = 'state'\n"
    "type = 'int -> string'\n"
    "about = 'how the fetch of a number stands: fetching, stored, refused or failed'\n"
    "[[call]]\n"
    "name = 'last'\n"
    "type = 'void -> string'\n"
    "about = 'the same of the last one'\n"))
